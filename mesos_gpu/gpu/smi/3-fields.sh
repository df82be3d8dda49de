# Set `title`, `value` and, where the value has one, `unit`, for the field $1 of the present GPU. Titles are the names
# that the real one has for a field, whatever it is asked by.
field() {
    title=$1 unit=''
    case $1 in
    count) value=$count ;;
    index) value=$index ;;
    name | gpu_name) title=name value=$name ;;
    uuid | gpu_uuid) title=uuid value=$uuid ;;
    serial | gpu_serial) title=serial && serial_number ;;
    pci.bus_id | gpu_bus_id) title=pci.bus_id value=$bus ;;
    pci.domain) value=0x${bus%%:*} ;;
    pci.bus) value=${bus#*:} value=0x${value%%:*} ;;
    pci.device) value=${bus##*:} value=0x${value%.*} ;;
    driver_version) value=$version ;;
    timestamp) value=$now ;;
    compute_cap) value=$capability ;;
    compute_mode) value=Default ;;
    pstate) value=P0 ;;
    persistence_mode | display_active | display_mode) value=Disabled ;;
    memory.*) memory_field "${1#memory.}" ;;
    utilization.*) use_field "${1#utilization.}" ;;
    temperature.gpu) value=$celsius ;;
    power.* | enforced.power.limit) power_field "$1" ;;
    clocks.*) clock_field "${1#clocks.}" ;;
    clocks_event_reasons.* | clocks_throttle_reasons.*) reason_field "${1#*.}" ;;
    pcie.link.gen.current | pcie.link.gen.max | pcie.link.gen.gpucurrent | pcie.link.gen.gpumax) value=3 ;;
    pcie.link.gen.hostmax) value=3 ;;
    pcie.link.width.current | pcie.link.width.max) value=16 ;;
    ecc.mode.current | ecc.mode.pending) value=Enabled ;;
    ecc.errors.corrected.*.total | ecc.errors.uncorrected.*.total) value=0 ;;
    mig.mode.current | mig.mode.pending) value=$mig_mode ;;
    pci.device_id | pci.sub_device_id | temperature.memory | fan.speed | vbios_version | driver_model.* | gom.* | \
        inforom.* | accounting.* | encoder.stats.* | retired_pages.* | gsp.mode.* | ecc.errors.*) value='[N/A]' ;;
    *) return 1 ;;
    esac
}

memory_field() {
    unit=MiB
    case $1 in
    total) value=$memory ;;
    free) value=$memory && [ "$memory" = - ] || value=$((memory - used)) ;;
    used) value=$used ;;
    reserved) value=0 ;;
    *) return 1 ;;
    esac
}

# Of a GPU in MIG mode nobody knows how busy it is.
use_field() {
    unit=%
    case $1 in
    gpu) value=$busy ;;
    memory | encoder | decoder) value=0 ;;
    jpeg | ofa) value='[N/A]' ;;
    *) return 1 ;;
    esac
    [ "$busy" != - ] || value='[N/A]'
}

# Watts of a number of milliwatts, with two decimals.
watts() {
    value=$(($1 / 1000)).$(($1 % 1000 / 100))$(($1 % 100 / 10))
}

power_field() {
    unit=W
    case $1 in
    power.management) unit='' value=Enabled ;;
    power.draw | power.draw.average | power.draw.instant) watts "$milliwatts" ;;
    power.limit | power.default_limit | power.max_limit | enforced.power.limit) watts "$most_milliwatts" ;;
    power.min_limit) watts "$((most_milliwatts / 2))" ;;
    *) return 1 ;;
    esac
}

clock_field() {
    unit=MHz
    case $1 in
    current.graphics | gr) title=clocks.current.graphics value=$core_mhz ;;
    current.sm | sm) title=clocks.current.sm value=$core_mhz ;;
    current.memory | mem) title=clocks.current.memory value=$memory_mhz ;;
    current.video | video) title=clocks.current.video value=$core_mhz ;;
    max.graphics | max.gr) title=clocks.max.graphics value=$most_core_mhz ;;
    max.sm) value=$most_core_mhz ;;
    max.memory | max.mem) title=clocks.max.memory value=$memory_mhz ;;
    applications.* | default_applications.*) value='[N/A]' ;;
    *) return 1 ;;
    esac
}

# Why the clocks are not at their highest: idle cards say so.
reason_field() {
    idle='Not Active'
    [ "$busy" != 0 ] || idle=Active
    case $1 in
    supported) value=0x0000000000000001 ;;
    active) value=0x0000000000000000 && [ "$idle" != Active ] || value=0x0000000000000001 ;;
    gpu_idle) value=$idle ;;
    applications_clocks_setting | sw_power_cap | hw_slowdown | hw_thermal_slowdown | hw_power_brake_slowdown | \
        sw_thermal_slowdown | sync_boost) value='Not Active' ;;
    *) return 1 ;;
    esac
}

# Thirteen digits that the UUID begins with, as NVML tells them.
serial_number() {
    value=${uuid#GPU-} value=${value%%-*}
    case $uuid in
    GPU-????????-*) value=$(printf '%013d' "$((0x$value))") ;;
    *) value='[N/A]' ;;
    esac
}

# The same for a process of the present GPU.
process_field() {
    title=$1 unit=''
    case $1 in
    pid) value=$pid ;;
    process_name | name) title=process_name value=$program ;;
    used_memory | used_gpu_memory) title=used_gpu_memory unit=MiB value=$amount ;;
    gpu_uuid | gpu_name | gpu_bus_id | gpu_serial) field "$1" && title=$1 ;;
    timestamp) field "$1" ;;
    *) return 1 ;;
    esac
}

without_blanks() {
    set -f # no file names in place of a *
    # shellcheck disable=SC2086
    set -- $1
    IFS=''
    printf '%s' "$*"
}

# Print one line of the fields in `query`: titles with $1 = title, else values of the present GPU, bare or with units.
print_fields() {
    text='' left=$query,
    while [ -n "$left" ]; do
        "$fields" "${left%%,*}"
        left=${left#*,}
        case $1 in
        title) value=$title${unit:+ [$unit]} ;;
        value) [ "$value" = - ] || [ "$value" = '[N/A]' ] || value=$value${unit:+ $unit} ;;
        esac
        text=$text${text:+, }$value
    done
    printf '%s\n' "$text"
}

check_query() {
    index=- uuid=- name=- memory=- bus=- version=- now=- pid=- program=- amount=0 left=$query,
    idle_card
    while [ -n "$left" ]; do
        "$fields" "${left%%,*}" || refuse "Field \"${left%%,*}\" is not a valid field to query."
        left=${left#*,}
    done
    case ,$format, in
    *,csv,*) ;;
    *) refuse 'A query needs --format=csv[,noheader][,nounits].' ;;
    esac
}

print_query() {
    case ,$query, in
    *,timestamp,*) now=$(date '+%Y/%m/%d %H:%M:%S.000') ;;
    esac
    how=value
    case ,$format, in *,nounits,*) how=bare ;; esac
    case ,$format, in
    *,noheader,*) ;;
    *) print_fields title ;;
    esac
    each_gpu "$each" "$how"
}

# Print a line of the fields in `query` for each process of the present GPU.
print_apps() {
    each_process print_fields "$1"
}
