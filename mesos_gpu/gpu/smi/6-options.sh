action=table fields=field each=print_fields ids='' query='' format='' count=0 times=0
while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
    -h | --help) usage && exit 0 ;;
    --version) action=version ;;
    -L | --list-gpus) action=list ;;
    topo)
        [ "$*" = -m ] || [ "$*" = --matrix ] || refuse 'Of topo this one knows -m.'
        action=topology
        shift
        ;;
    pmon)
        action=monitor
        [ "${1-}" != -c ] || { times=${2-} && shift 2; }
        case $times in '' | *[!0-9]*) refuse 'Of pmon -c this one knows a number.' ;; esac
        ;;
    -q | --query) [ "$action" = xml ] || action=report ;;
    -x | --xml-format) action=xml ;;
    -qx | -xq) action=xml ;;
    --query-gpu=?*) action=query query=${option#*=} ;;
    --query-compute-apps=?*) action=query query=${option#*=} fields=process_field each=print_apps ;;
    --format=?*) format=${option#*=} ;;
    --id=?*) ids=${option#*=} ;;
    -i | --id)
        [ $# -gt 0 ] || refuse "Option $option needs the index, UUID or bus id of a GPU."
        ids=$1
        shift
        ;;
    *) refuse "Option $option is not recognized." ;;
    esac
done
# Fields may be given as "index, name".
[ -z "$query" ] || query=$(without_blanks "$query")
[ -z "$format" ] || format=$(without_blanks "$format")

case $action in
version)
    need_table
    while IFS=$tab read -r minor index uuid name memory bus version; do
        case $minor in '' | '#'*) continue ;; esac
        break
    done <"$table"
    printf 'NVIDIA-SMI version  : (simulated)\nDRIVER version      : %s\nCUDA Version        : %s\n' "$version" "$cuda"
    ;;
list) find_gpus && each_gpu list_gpu ;;
topology) find_gpus && print_topology ;;
monitor) find_gpus && print_monitor "$times" ;;
report | xml) find_gpus && print_report "$action" ;;
query) check_query && find_gpus && print_query ;;
*) find_gpus && print_table ;;
esac
