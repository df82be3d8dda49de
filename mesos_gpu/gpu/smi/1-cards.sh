#!/bin/sh
# A stand-in for NVIDIA's nvidia-smi on machines whose GPUs are simulated. POSIX sh and date(1), nothing else.
# What the GPUs do, the program nvidia-smi-use beside it asks; without that, or an answer, they are idle.
#
# Which GPUs this container may use is not written anywhere: the device cgroup is asked, by opening the nodes.
#   ENXIO         the cgroup let the open through and there is no driver behind the number: ours
#   EPERM, ENOENT not ours
# What those GPUs are stands in the table `gpus` of the driver volume, one directory above this script: lines of
# minor, index, uuid, name, memory in MiB, bus id, driver version, separated by tabs, by index; `-` is unknown.
# As with the real driver, the GPUs of a container are numbered from 0.

LC_ALL=C # the reason of a failed open is read in English
export LC_ALL
tab='	'
newline='
'
dev=${MESOS_GPU_DEV:-/dev}
case $0 in
*/*) table=${0%/*}/../gpus ;;
*) table=../gpus ;;
esac
# It may be shown beside other programs, too, by those who make containers for others.
[ -r "$table" ] || [ ! -r /usr/local/nvidia/gpus ] || table=/usr/local/nvidia/gpus

refuse() {
    printf '%s\nRun "nvidia-smi -h" for help.\n' "$1"
    exit 2
}

usage() {
    cat <<'END'
NVIDIA System Management Interface, simulated: the GPUs it shows do not exist.

nvidia-smi [OPTION...]

    -h, --help                 Print this and exit.
    -L, --list-gpus            List the GPUs of this container, one a line.
    -i, --id=ID[,ID...]        Only these GPUs, by index, UUID or PCI bus id.
    -q, --query                Print what is known of each GPU; with -x, --xml-format, as XML.
    --query-gpu=FIELD,...      Print fields, with --format=csv[,noheader][,nounits]: count, index, name, uuid, serial,
                               pci.*, pcie.link.*, driver_version, memory.*, utilization.*, temperature.gpu, power.*,
                               clocks.*, clocks_event_reasons.*, ecc.*, pstate, compute_cap, compute_mode,
                               persistence_mode, mig.mode.*, timestamp, display_active, display_mode; others that
                               these cards do not have, as fan.speed, are [N/A].
    --query-compute-apps=FIELD,...  Print fields of each process on a GPU, as --query-gpu:
                               pid, process_name, used_memory, gpu_uuid, gpu_name, gpu_bus_id, timestamp
    pmon [-c N]                Print what each process has of the GPUs, each second, N times.
    topo -m                    How the GPUs of this container are connected.
    --version                  Print versions and exit.

Exit status: 0 done, 2 bad option, 6 no GPU, 9 no driver volume.
END
}

# True where the device cgroup lets this process open the node for reading and writing.
may_open() {
    [ -c "$1" ] || return 1 # and an open with <> would create a file that is missing
    reason=$( (: <>"$1") 2>&1) && return 0
    case $reason in
    *'No such device or address'*) return 0 ;;
    esac
    return 1
}

# True where $2 (a comma separated list, empty for all) names the GPU by $1 (several names, blank separated).
wanted() {
    [ -z "$2" ] && return 0
    for called in $1; do
        case ,$2, in
        *,"$called",*) return 0 ;;
        esac
    done
    return 1
}

need_table() {
    [ -r "$table" ] && return
    printf 'nvidia-smi (simulated) has failed: its driver volume has no readable %s\n' "$table"
    exit 9
}

# Set `rows` to the lines of the table that are this container's and wanted, `count` to how many are its own.
find_gpus() {
    rows='' count=0
    need_table
    while IFS=$tab read -r minor index uuid name memory bus version; do
        case $minor in
        '' | '#'*) continue ;;
        esac
        may_open "$dev/nvidia$minor" || continue
        if wanted "$count $uuid $bus ${bus#0000}" "$ids"; then
            rows=$rows$count$tab$minor$tab$uuid$tab$name$tab$memory$tab$bus$tab$version$newline
        fi
        count=$((count + 1))
    done <"$table"
    [ -n "$rows" ] || {
        echo 'No devices were found'
        exit 6
    }
}

# What is the same for each of these cards; NVML tells the same.
capability=8.0 architecture=Ampere cuda=12.4 most_milliwatts=300000 most_core_mhz=1480 memory_mhz=715

# What a card does that does nothing.
idle_card() {
    busy=0 used=0 celsius=30 milliwatts=25000 core_mhz=405 instances='' running='' mig_mode='[N/A]'
}

# Set what the present GPU does: busy (percent, or -), used (MiB), celsius, milliwatts, and the lines of `instances` and
# `running`.
look() {
    idle_card
    [ -x "${table%/gpus}/bin/nvidia-smi-use" ] || return 0
    told=$(MESOS_GPU_DRIVER_DIR=${table%/gpus} "${table%/gpus}/bin/nvidia-smi-use" "$minor" "$memory" 2>/dev/null) || return 0
    while read -r word first second third fourth fifth; do
        case $word in
        MIG) instances=$instances$first$tab$second$tab$third$tab$fourth$tab$fifth$newline ;;
        '') ;;
        PROCESS) running="$running$first $second $third $fourth${fifth:+ $fifth}$newline" ;;
        *)
            busy=$word used=$first celsius=$second milliwatts=$third
            case $busy in
            -) mig_mode=Enabled ;;
            [1-9]*) core_mhz=$most_core_mhz ;;
            esac
            ;;
        esac
    done <<END
$told
END
}

# Call "$@" for each process of the present GPU, with pid, amount (MiB), share (percent) and program set.
each_process() {
    while read -r pid amount share program; do
        [ -z "$pid" ] || "$@"
    done <<END
$running
END
}

# Call "$@" for each line of `rows`, with index, uuid, name, memory, bus and version set.
each_gpu() {
    while IFS=$tab read -r index minor uuid name memory bus version; do
        [ -z "$index" ] && continue
        look
        "$@"
    done <<END
$rows
END
}

list_gpu() {
    printf 'GPU %s: %s (UUID: %s)\n' "$index" "$name" "$uuid"
    while IFS=$tab read -r slot profile part _; do
        [ -z "$slot" ] || printf '  MIG %-15s Device %2s: (UUID: %s)\n' "$profile" "$slot" "$part"
    done <<END
$instances
END
}

