"""The flags of `mesos-gpu-master`: Mesos's names and defaults, and those of Mesos that have no meaning here. Pure.

Source: Mesos src/master/flags.cpp, src/logging/flags.cpp, docs/configuration/{master,master-and-agent}.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.mesos.flags import (
    BOOLEAN,
    CommandLine,
    Duration,
    InertFlag,
    OperatorFlags,
    PathText,
    flag,
    ignored,
    refused,
    required,
)

SORTERS = ("drf", "random")


class MasterFlags(OperatorFlags):
    """The flags that the master acts on."""

    advertise_ip: str | None = flag(None, "Address that others reach this master at, when it is not --ip.")
    advertise_port: int | None = flag(
        None, "Port that others reach this master at, when it is not --port.", at_least=1, at_most=65535
    )
    port: int = flag(5050, "Port to listen on; 0 takes a free one.", at_least=0, at_most=65535)
    hostname: str | None = flag(None, "Name under which the master is shown; default: its address.")
    zk: str | None = flag(None, "zk://HOST1:PORT1,HOST2:PORT2/PATH: one of several masters, elected there.")
    zk_session_timeout: Duration = flag(10.0, "How long a leader that vanished is waited for.", above=0)
    registry_store_timeout: Duration = flag(20.0, "How long ZooKeeper may take to keep the registry.", above=0)
    registry_gc_interval: Duration = flag(900.0, "How often agents are forgotten by the two flags below.", above=0)
    registry_max_agent_age: Duration = flag(1_209_600.0, "How long unreachable or gone agents are remembered.")
    registry_max_agent_count: int = flag(102_400, "How many unreachable, or gone, agents are remembered.", at_least=0)
    work_dir: PathText = required(
        "Folder for the registry: the agents that this master knows.",
        "a folder for the registry, for example /var/lib/mesos/master",
    )
    cluster: str | None = flag(None, "Name of the cluster, for people.")
    filter_gpu_resources: bool = flag(True, "Offer GPU machines to frameworks with GPU_RESOURCES only.")
    fair_sharing_excluded_resource_names: tuple[str, ...] = flag(("gpus",), "Resources that do not count for fairness.")
    min_allocatable_resources: str = flag(
        "cpus:0.01|mem:32|gpus:1", "What an offer holds at least: one of the sides of `|`."
    )
    roles: tuple[str, ...] = flag((), "The only roles that frameworks may have, beside `*`; none given allows any.")
    role_sorter: str = flag(
        "drf", "Which role is first: drf goes by shares, random draws by the weights of roles.", one_of=SORTERS
    )
    user_sorter: str | None = flag(None, "The older name of --role_sorter.", one_of=SORTERS)
    framework_sorter: str = flag(
        "drf", "The same among the frameworks of a role; both sorters must be the same.", one_of=SORTERS
    )
    root_submissions: bool = flag(True, "Let frameworks subscribe whose user is root.")
    offer_timeout: Duration | None = flag(None, "How long an offer may stay unanswered before it is taken back.")
    check_invariants: bool = flag(False, "Debug: check the state after every event; stop if it is inconsistent.")
    allocation_interval: Duration = flag(1.0, "How often refusals are looked through; offers go out at once.", above=0)
    authenticate_agents: bool = flag(False, "Register only agents that have shown who they are.")
    authenticate_frameworks: bool | None = flag(
        None, "Subscribe only drivers (v0) that have shown who they are; default: as --authenticate_http_frameworks."
    )
    credentials: PathText | None = flag(
        None,
        'File of the credentials of frameworks and agents: {"credentials": [{"principal": ..., "secret": ...}]}, '
        "or a line for each.",
    )
    agent_ping_timeout: Duration = flag(15.0, "How often agents are pinged, and how long an answer may take.", above=0)
    max_agent_ping_timeouts: int = flag(5, "Answers in a row that may be missing before it is unreachable.", at_least=1)
    publish_per_framework_metrics: bool = flag(True, "Show metrics of each framework.")
    external_log_file: PathText | None = flag(
        None, "The file that this program's stderr goes to; /files shows it as /master/log."
    )
    max_operator_event_stream_subscribers: int = flag(1000, "Event streams of operators at a time.", at_least=1)
    agent_removal_rate_limit: str | None = flag(
        None, "How fast agents that are silent or away are given up, as in 1/10mins; default: at once."
    )
    agent_reregister_timeout: Duration = flag(
        600.0, "How long an agent may stay away after its link broke, or after our start."
    )
    recovery_agent_removal_limit: str = flag(
        "100%", "If more of the known agents than that have not come back in this time after our start, stop."
    )
    http_authenticators: str = flag("basic", "How callers show who they are: basic.", one_of=("basic",))
    authorizers: str = flag("local", "Authorizer that applies --acls: local.", one_of=("local",))
    authenticate_http_frameworks: bool = flag(False, "Subscribe only frameworks that have shown who they are.")
    http_framework_authenticators: str | None = flag(
        None, "How frameworks show who they are: basic.", one_of=("basic",)
    )


OLD_NAMES = {
    "slave_reregister_timeout": "agent_reregister_timeout",
    "slave_removal_rate_limit": "agent_removal_rate_limit",
    "slave_ping_timeout": "agent_ping_timeout",
    "max_slave_ping_timeouts": "max_agent_ping_timeouts",
    "recovery_slave_removal_limit": "recovery_agent_removal_limit",
    "authenticate_slaves": "authenticate_agents",
    "authenticate": "authenticate_frameworks",
    "authenticate_http": "authenticate_http_readwrite",
    "max_executors_per_slave": "max_executors_per_agent",
}
"""Names that Mesos still takes for newer ones."""
_ONE_VALUE = "the registry is a file in --work_dir, or with --zk one value in ZooKeeper"
_NO_MODULES = "modules are C++ libraries; this master loads none"
_LOGS = "logs go to standard error, for journald"

INERT: Sequence[InertFlag] = (
    # --- accepted: tuning, watching, logging ---
    *ignored(_ONE_VALUE, "quorum", "registry", "registry_fetch_timeout"),
    *ignored(_ONE_VALUE, "log_auto_initialize", "registry_strict", kind=BOOLEAN),
    *ignored("offers begin as agents come back", "allocator_recovery_timeout", "allocator_agent_recovery_factor"),
    *ignored("a driver may take as long as it likes to authenticate", "authentication_v0_timeout"),
    *ignored(
        "50 frameworks, and 1000 ended and 1000 unreachable tasks of each, are remembered",
        "max_completed_frameworks",
        "max_completed_tasks_per_framework",
        "max_unreachable_tasks_per_framework",
    ),
    *ignored(
        "regexes of offer constraints are matched in bounded time and memory",
        "offer_constraints_re2_max_mem",
        "offer_constraints_re2_max_program_size",
    ),
    *ignored(_LOGS, "log_dir", "logbufsecs", "logging_level"),
    *ignored(_LOGS, "quiet", "initialize_driver_logging", kind=BOOLEAN),
    *ignored("--hostname is used as it is, and by default the address", "hostname_lookup", kind=BOOLEAN),
    *ignored("no profiler is built in", "memory_profiling", kind=BOOLEAN),
    *ignored("Mesos' own pages are not bundled; served from elsewhere, they can read this master", "webui_dir"),
    # --- refused: somebody relies on them ---
    *refused(_NO_MODULES, "modules", "modules_dir", "hooks", "master_contender", "master_detector"),
    *refused(_NO_MODULES, "allocator", accepted=("hierarchical", "HierarchicalDRF")),
    *refused("agents show who they are by CRAM-MD5 alone", "authenticators", accepted=("crammd5",)),
    *refused("nothing is run to find an address: say --ip or --advertise_ip", "ip_discovery_command"),
    *refused("agents are not kept out by a list: deactivate them", "whitelist", accepted=("*",)),
    *refused("the calls of frameworks are not limited by rate", "rate_limits"),
    *refused("endpoints are not switched off one by one: --acls says who may use which", "firewall_rules"),
    *refused("weights are set by PUT /weights or UPDATE_WEIGHTS, and are kept", "weights"),
    *refused("fault domains are not supported", "domain"),
    *refused("fault domains are not supported", "require_agent_domain", accepted=("false",), kind=BOOLEAN),
    *refused("there is no port mapping isolator that would need it", "max_executors_per_agent"),
)

COMMAND_LINE = CommandLine("mesos-gpu-master", "MESOS_", MasterFlags, INERT, OLD_NAMES)
