# Set `tie` to how the GPUs of minors $1 and $2 are connected, by the table `links`: of one with itself its NUMA node.
tie_of() {
    tie='' level=50 nvlinks=0
    while IFS=$tab read -r first second third fourth; do
        case $first-$second in
        "$1-$2" | "$2-$1") level=$third nvlinks=$((nvlinks + fourth)) ;;
        "$1-$1") through=$fourth ;;
        esac
    done <<END
$links
END
    [ "$1" = "$2" ] && tie=$level && return
    nvlinks=$((nvlinks + through))
    case $level in
    0) tie=SOC ;; 10) tie=PIX ;; 20) tie=PXB ;; 30) tie=PHB ;; 40) tie=NODE ;; *) tie=SYS ;;
    esac
    [ "$nvlinks" = 0 ] || tie=NV$nvlinks
}

# Set `cpus` to those of a NUMA node; where this machine has no such node, to all.
near_cpus() {
    cpus=''
    for file in "/sys/devices/system/node/node$1/cpulist" /sys/devices/system/cpu/online; do
        [ -n "$cpus" ] || [ ! -r "$file" ] || read -r cpus <"$file"
    done
    cpus=${cpus:-N/A}
}

remember_minor() {
    minors="$minors $minor"
}

# The table of `nvidia-smi topo -m`.
print_topology() {
    [ -r "${table%/gpus}/links" ] || refuse 'How these GPUs are connected is not known.'
    links=$(cat "${table%/gpus}/links")
    minors='' at=0 through=0
    each_gpu remember_minor
    for one in $minors; do
        printf '\tGPU%s' "$at"
        at=$((at + 1))
    done
    printf '\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n'
    at=0
    for one in $minors; do
        printf 'GPU%s' "$at"
        at=$((at + 1))
        for other in $minors; do
            tie_of "$one" "$other"
            [ "$one" != "$other" ] || tie=' X '
            printf '\t%s' "$tie"
        done
        tie_of "$one" "$one"
        near_cpus "$tie"
        printf '\t%s\t%s\tN/A\n' "$cpus" "$tie"
    done
    cat <<'END'

Legend:

  X    = the GPU itself
  NV#  = so many NVLinks
  PIX  = one PCIe switch between them
  PXB  = several PCIe switches
  PHB  = the host bridge of the CPU
  NODE = host bridges within a NUMA node
  SYS  = across NUMA nodes
END
}

