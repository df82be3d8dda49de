print_table() {
    line='+-----------------------------------------+------------------------+----------------------+'
    wide='+-----------------------------------------------------------------------------------------+'
    date '+%a %b %e %H:%M:%S %Y'
    versions=-
    each_gpu remember_version
    printf '%s\n' "$wide"
    printf '| %-87s |\n' "NVIDIA-SMI (simulated)         Driver Version: $versions       CUDA Version: $cuda"
    printf '|%s\n' "${line#+}"
    printf '| %-39s | %-22s | %-20s |\n' \
        'GPU  Name                 Persistence-M' 'Bus-Id          Disp.A' 'Volatile Uncorr. ECC' \
        'Fan  Temp   Perf          Pwr:Usage/Cap' '          Memory-Usage' 'GPU-Util  Compute M.' \
        '' '' '              MIG M.'
    echo '|=========================================+========================+======================|'
    each_gpu print_box
    printf '%89s\n%s\n' '' "$wide"
    printf '| %-87s |\n' 'Processes:' \
        ' GPU   GI   CI        PID   Type   Process name                              GPU Memory' \
        '       ID   ID                                                               Usage'
    echo '|=========================================================================================|'
    processes=0
    each_gpu print_processes
    [ "$processes" -gt 0 ] || printf '| %-87s |\n' ' No running processes found'
    printf '%s\n' "$wide"
}

remember_version() {
    versions=$version
}

print_box() {
    printf '| %3s  %-28.28s   Off | %18.18s Off | %20s |\n' "$index" "$name" "$bus" 0
    does=${busy}%
    [ "$busy" = - ] && does=N/A
    mode=${mig_mode#[} mode=${mode%]}
    printf '|%4s   %3s    %-3s          %5s / %5s | %22s | %20s |\n' N/A "${celsius}C" P0 "$((milliwatts / 1000))W" \
        "$((most_milliwatts / 1000))W" "${used}MiB / ${memory}MiB" "$does      Default"
    printf '| %-39s | %-22s | %20s |\n' '' '' "$mode"
    printf '%s\n' "$line"
}

# Long names of programs lose their beginning, as in the real one's table.
print_process() {
    processes=$((processes + 1)) shown=$program
    while [ ${#shown} -gt 37 ]; do shown=${shown#?}; done
    [ "$shown" = "$program" ] || shown=...$shown
    printf '| %4s  N/A  N/A  %9s      C   %-40s %8s |\n' "$index" "$pid" "$shown" "${amount}MiB"
}

print_processes() {
    each_process print_process
}

# One line of `nvidia-smi pmon`.
print_share() {
    printf '%5s %10s %5s %6s %6s %6s %6s %6s %6s    %-15s\n' "$index" "$pid" "$1" "$share" "$2" - - - - "${program##*/}"
}

print_shares() {
    pid=- share=- program=-
    [ -n "$running" ] || print_share - -
    each_process print_share C 0
}

# `nvidia-smi pmon`: what each process had of the second before, $1 times; with 0 until it is ended.
print_monitor() {
    echo '# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command '
    echo '# Idx           #    C/G      %      %      %      %      %      %    name '
    left=$1
    while :; do
        each_gpu print_shares
        [ "$left" != 1 ] || return 0
        [ "$left" = 0 ] || left=$((left - 1))
        sleep 1
    done
}
