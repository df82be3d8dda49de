# What `nvidia-smi -q` tells, as text or, with -x, as XML: the same groups and items, each with its name in both.

# Begin a group: its tag and its title.
group() {
    if [ "$form" = xml ]; then printf '%s<%s>\n' "$margin" "$1"; else printf '%s%s\n' "$margin" "$2"; fi
    closing="$1 $closing" margin=$margin$step
}

end_group() {
    margin=${margin%"$step"}
    [ "$form" != xml ] || printf '%s</%s>\n' "$margin" "${closing%% *}"
    closing=${closing#* }
}

# Print an item: its tag, its title and its value.
item() {
    if [ "$form" = xml ]; then
        escape "$3"
        printf '%s<%s>%s</%s>\n' "$margin" "$1" "$escaped" "$1"
    else
        printf '%-42s: %s\n' "$margin$2" "$3"
    fi
}

# An item that is a field of queries; here what is not known is N/A.
item_of() {
    field "$3"
    [ "$value" != '[N/A]' ] && [ "$value" != - ] || value=N/A unit=''
    item "$1" "$2" "$value${unit:+ $unit}"
}

# Items of one value: tag and title, tag and title, and so on.
items() {
    same=$1
    shift
    while [ $# -gt 0 ]; do
        item "$1" "$2" "$same"
        shift 2
    done
}

escape() {
    escaped='' rest=$1
    while [ -n "$rest" ]; do
        case $rest in
        \&*) escaped="$escaped&amp;" ;;
        \<*) escaped="$escaped&lt;" ;;
        \>*) escaped="$escaped&gt;" ;;
        *) escaped=$escaped${rest%"${rest#?}"} ;;
        esac
        rest=${rest#?}
    done
}

# $1: report or xml.
print_report() {
    form=$1 margin='' closing='' step='    ' versions=- attached=0
    [ "$form" != xml ] || step=$tab
    each_gpu count_card
    if [ "$form" = xml ]; then
        printf '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        margin=$tab
    else
        printf '\n==============NVSMI LOG==============\n\n'
    fi
    item timestamp Timestamp "$(date '+%a %b %e %H:%M:%S %Y')"
    item driver_version 'Driver Version' "$versions"
    item cuda_version 'CUDA Version' "$cuda"
    [ "$form" = xml ] || echo
    item attached_gpus 'Attached GPUs' "$attached"
    each_gpu print_card
    [ "$form" != xml ] || echo '</nvidia_smi_log>'
}

count_card() {
    versions=$version attached=$((attached + 1))
}

print_card() {
    [ "$form" != xml ] || printf '\t<gpu id="%s">\n' "$bus"
    [ "$form" = xml ] || printf 'GPU %s\n' "$bus"
    margin=$margin$step
    print_identity
    print_bus
    item_of fan_speed 'Fan Speed' fan.speed
    item_of performance_state 'Performance State' pstate
    print_reasons
    print_memory
    item_of compute_mode 'Compute Mode' compute_mode
    print_use
    print_ecc
    print_temperature
    print_power
    print_clocks
    print_running
    margin=${margin%"$step"}
    [ "$form" != xml ] || printf '\t</gpu>\n'
    [ "$form" = xml ] || echo
}

print_identity() {
    item product_name 'Product Name' "$name"
    item product_brand 'Product Brand' Tesla
    item product_architecture 'Product Architecture' "$architecture"
    items Disabled display_mode 'Display Mode' display_active 'Display Active' persistence_mode 'Persistence Mode'
    group mig_mode 'MIG Mode'
    item_of current_mig Current mig.mode.current
    item_of pending_mig Pending mig.mode.pending
    end_group
    print_instances
    items N/A accounting_mode 'Accounting Mode' accounting_mode_buffer_size 'Accounting Mode Buffer Size'
    group driver_model 'Driver Model'
    items N/A current_dm Current pending_dm Pending
    end_group
    item_of serial 'Serial Number' serial
    item uuid 'GPU UUID' "$uuid"
    item minor_number 'Minor Number' "$minor"
    item_of vbios_version 'VBIOS Version' vbios_version
}

print_instances() {
    [ -n "$instances" ] || { item mig_devices 'MIG Devices' None && return; }
    [ "$form" = xml ] || echo "${margin}MIG Devices"
    [ "$form" != xml ] || group mig_devices ''
    while IFS=$tab read -r slot _ _ taken whole; do
        [ -n "$slot" ] || continue
        group mig_device 'MIG Device'
        item index Index "$slot"
        group fb_memory_usage 'FB Memory Usage'
        item total Total "$whole MiB"
        item reserved Reserved '0 MiB'
        item used Used "$taken MiB"
        item free Free "$((whole - taken)) MiB"
        end_group
        end_group
    done <<END
$instances
END
    [ "$form" != xml ] || end_group
}

print_bus() {
    group pci PCI
    field pci.bus && item pci_bus Bus "$value"
    field pci.device && item pci_device Device "$value"
    field pci.domain && item pci_domain Domain "$value"
    items N/A pci_device_id 'Device Id'
    item pci_bus_id 'Bus Id' "$bus"
    items N/A pci_sub_system_id 'Sub System Id'
    group pci_gpu_link_info 'GPU Link Info'
    group pcie_gen 'PCIe Generation'
    items 3 max_link_gen Max current_link_gen Current
    end_group
    group link_widths 'Link Width'
    items 16x max_link_width Max current_link_width Current
    end_group
    end_group
    items 0 replay_counter 'Replays Since Reset'
    items '0 KB/s' tx_util 'Tx Throughput' rx_util 'Rx Throughput'
    end_group
}

print_reasons() {
    group clocks_event_reasons 'Clocks Event Reasons'
    item_of clocks_event_reason_gpu_idle Idle clocks_event_reasons.gpu_idle
    items 'Not Active' clocks_event_reason_applications_clocks_setting 'Applications Clocks Setting' \
        clocks_event_reason_sw_power_cap 'SW Power Cap' clocks_event_reason_hw_slowdown 'HW Slowdown' \
        clocks_event_reason_sync_boost 'Sync Boost' clocks_event_reason_sw_thermal_slowdown 'SW Thermal Slowdown'
    end_group
}

print_memory() {
    group fb_memory_usage 'FB Memory Usage'
    item_of total Total memory.total
    item_of reserved Reserved memory.reserved
    item_of used Used memory.used
    item_of free Free memory.free
    end_group
    group bar1_memory_usage 'BAR1 Memory Usage'
    item total Total '16384 MiB'
    item used Used '2 MiB'
    item free Free '16382 MiB'
    end_group
}

print_use() {
    group utilization Utilization
    item_of gpu_util Gpu utilization.gpu
    item_of memory_util Memory utilization.memory
    item_of encoder_util Encoder utilization.encoder
    item_of decoder_util Decoder utilization.decoder
    item_of jpeg_util JPEG utilization.jpeg
    item_of ofa_util OFA utilization.ofa
    end_group
}

print_ecc() {
    group ecc_mode 'ECC Mode'
    items Enabled current_ecc Current pending_ecc Pending
    end_group
    group ecc_errors 'ECC Errors'
    for since in 'volatile Volatile' 'aggregate Aggregate'; do
        group "${since% *}" "${since#* }"
        items 0 sram_correctable 'SRAM Correctable' sram_uncorrectable 'SRAM Uncorrectable' \
            dram_correctable 'DRAM Correctable' dram_uncorrectable 'DRAM Uncorrectable'
        end_group
    done
    end_group
}

print_temperature() {
    group temperature Temperature
    item gpu_temp 'GPU Current Temp' "$celsius C"
    items N/A gpu_temp_tlimit 'GPU T.Limit Temp' gpu_temp_max_threshold 'GPU Shutdown Temp' \
        gpu_temp_slow_threshold 'GPU Slowdown Temp' gpu_temp_max_gpu_threshold 'GPU Max Operating Temp' \
        gpu_target_temperature 'GPU Target Temperature' memory_temp 'Memory Current Temp'
    end_group
}

print_power() {
    group gpu_power_readings 'GPU Power Readings'
    [ "$form" != xml ] || item power_state 'Power State' P0
    item_of power_draw 'Power Draw' power.draw
    item_of current_power_limit 'Current Power Limit' enforced.power.limit
    item_of requested_power_limit 'Requested Power Limit' power.limit
    item_of default_power_limit 'Default Power Limit' power.default_limit
    item_of min_power_limit 'Min Power Limit' power.min_limit
    item_of max_power_limit 'Max Power Limit' power.max_limit
    end_group
}

print_clocks() {
    group clocks Clocks
    items "$core_mhz MHz" graphics_clock Graphics sm_clock SM
    items "$memory_mhz MHz" mem_clock Memory
    items "$core_mhz MHz" video_clock Video
    end_group
    group max_clocks 'Max Clocks'
    items "$most_core_mhz MHz" graphics_clock Graphics sm_clock SM
    items "$memory_mhz MHz" mem_clock Memory
    items "$most_core_mhz MHz" video_clock Video
    end_group
}

print_running() {
    if [ -z "$running" ] && [ "$form" != xml ]; then
        item processes Processes None
        return
    fi
    group processes Processes
    each_process print_user
    end_group
}

print_user() {
    if [ "$form" = xml ]; then
        group process_info ''
        items N/A gpu_instance_id '' compute_instance_id ''
        item pid '' "$pid"
    else
        items N/A _ 'GPU instance ID' _ 'Compute instance ID'
        item pid 'Process ID' "$pid"
        margin=$margin$step
    fi
    item type Type C
    item process_name Name "$program"
    item used_memory 'Used GPU Memory' "$amount MiB"
    if [ "$form" = xml ]; then end_group; else margin=${margin%"$step"}; fi
}
