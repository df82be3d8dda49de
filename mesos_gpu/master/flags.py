"""The flags of `mesos-gpu-master`, by Mesos' names (src/master/flags.cpp), and what they mean together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from mesos_gpu.errors import BadFlag, BadResources
from mesos_gpu.master.allocation.eligibility import Rules, quantities
from mesos_gpu.master.api.access import MASTER_ACCESS_FLAGS, WALLS
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.mesos.dcos.switches import SWITCH_FLAGS
from mesos_gpu.mesos.flags import Flag, format_duration, parse_duration
from mesos_gpu.mesos.ids import ANY_ROLE, Role
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.process.access import check_address
from mesos_gpu.process.browsers import HTTP_HOSTS
from mesos_gpu.process.peers import SAME_USER_PEERS

SORTERS = ("drf", "random")
FLAGS: Sequence[Flag] = (
    Flag("ip", "text", "127.0.0.1", "Address to listen on."),
    Flag("advertise_ip", "text", None, "Address that others reach this master at, when it is not --ip."),
    Flag("advertise_port", "integer", None, "Port that others reach this master at, when it is not --port."),
    Flag("port", "integer", 5050, "Port to listen on; 0 takes a free one."),
    Flag("hostname", "text", None, "Name under which the master is shown; default: its address."),
    HTTP_HOSTS,
    SAME_USER_PEERS,
    Flag("insecure", "boolean", False, "Listen beyond this machine although callers need not show credentials."),
    Flag("zk", "text", None, "zk://HOST1:PORT1,HOST2:PORT2/PATH: one of several masters, elected there."),
    Flag("zk_session_timeout", "duration", 10.0, "How long a leader that vanished is waited for."),
    Flag("registry_store_timeout", "duration", 20.0, "How long ZooKeeper may take to keep the registry."),
    Flag("registry_gc_interval", "duration", 900.0, "How often agents are forgotten by the two flags below."),
    Flag("registry_max_agent_age", "duration", 1_209_600.0, "How long unreachable or gone agents are remembered."),
    Flag("registry_max_agent_count", "integer", 102_400, "How many unreachable, or gone, agents are remembered."),
    Flag("work_dir", "path", None, "Folder for the registry: the agents that this master knows."),
    Flag("cluster", "text", None, "Name of the cluster, for people."),
    Flag("filter_gpu_resources", "boolean", True, "Offer GPU machines to frameworks with GPU_RESOURCES only."),
    *SWITCH_FLAGS,
    Flag("fair_sharing_excluded_resource_names", "list", ("gpus",), "Resources that do not count for fairness."),
    Flag(
        "min_allocatable_resources",
        "text",
        "cpus:0.01|mem:32|gpus:1",
        "What an offer holds at least: one of the sides of `|`.",
    ),
    Flag("roles", "list", (), "The only roles that frameworks may have, beside `*`; none given allows any."),
    Flag(
        "role_sorter", "text", "drf", "Which role is first: drf goes by shares, random draws by the weights of roles."
    ),
    Flag("user_sorter", "text", None, "The older name of --role_sorter."),
    Flag("framework_sorter", "text", "drf", "The same among the frameworks of a role; both sorters must be the same."),
    Flag("root_submissions", "boolean", True, "Let frameworks subscribe whose user is root."),
    Flag("offer_timeout", "duration", None, "How long an offer may stay unanswered before it is taken back."),
    Flag("check_invariants", "boolean", False, "Debug: check the state after every event; stop if it is inconsistent."),
    Flag("allocation_interval", "duration", 1.0, "How often refusals are looked through; offers go out at once."),
    Flag("authenticate_agents", "boolean", False, "Register only agents that have shown who they are."),
    Flag(
        "authenticate_frameworks",
        "boolean",
        None,
        "Subscribe only drivers (v0) that have shown who they are; default: as --authenticate_http_frameworks.",
    ),
    Flag(
        "credentials",
        "path",
        None,
        'File of the credentials of frameworks and agents: {"credentials": [{"principal": ..., "secret": ...}]}, '
        "or a line for each.",
    ),
    *MASTER_ACCESS_FLAGS,
    Flag("agent_ping_timeout", "duration", 15.0, "How often agents are pinged, and how long an answer may take."),
    Flag("max_agent_ping_timeouts", "integer", 5, "Answers in a row that may be missing before it is unreachable."),
    Flag("publish_per_framework_metrics", "boolean", True, "Show metrics of each framework."),
    Flag(
        "external_log_file",
        "path",
        None,
        "The file that this program's stderr goes to; /files shows it as /master/log.",
    ),
    Flag("json_suffixes", "boolean", False, "Answer /state.json and its kin too, as Mesos did before 1.0."),
    Flag("max_operator_event_stream_subscribers", "integer", 1000, "Event streams of operators at a time."),
    Flag(
        "agent_removal_rate_limit",
        "text",
        None,
        "How fast agents that are silent or away are given up, as in 1/10mins; default: at once.",
    ),
    Flag(
        "agent_reregister_timeout",
        "duration",
        600.0,
        "How long an agent may stay away after its link broke, or after our start.",
    ),
    Flag(
        "recovery_agent_removal_limit",
        "text",
        "100%",
        "If more of the known agents than that have not come back in this time after our start, stop.",
    ),
)


def check_flags(flags: Mapping[str, Any]) -> None:
    """Refuse what cannot work. Raises BadFlag."""
    if not flags["work_dir"]:
        raise BadFlag("work_dir", "is needed: a folder for the registry, for example /var/lib/mesos/master")
    if not 0 <= flags["port"] <= 65535:
        raise BadFlag("port", f"{flags['port']} is not a port: 0 to 65535")
    if flags["advertise_port"] is not None and not 0 < flags["advertise_port"] <= 65535:
        raise BadFlag("advertise_port", f"{flags['advertise_port']} is not a port: 1 to 65535")
    removal_interval_s(flags["agent_removal_rate_limit"])
    removal_share(flags["recovery_agent_removal_limit"])
    for name, asked in (
        ("authenticate_agents", flags["authenticate_agents"]),
        ("authenticate_frameworks", authenticates_drivers(flags)),
    ):
        if asked and flags["credentials"] is None:
            raise BadFlag("credentials", f"is needed with --{name}: the file of principals and secrets")
    if flags["zk"] is not None:
        parse_zk_url("zk", flags["zk"])
    for name in (
        "allocation_interval",
        "agent_ping_timeout",
        "zk_session_timeout",
        "registry_store_timeout",
        "registry_gc_interval",
    ):
        if flags[name] <= 0:
            raise BadFlag(name, "must be more than 0")
    if flags["registry_max_agent_count"] < 0:
        raise BadFlag("registry_max_agent_count", "must not be negative")
    for name in ("max_agent_ping_timeouts", "max_operator_event_stream_subscribers"):
        if flags[name] < 1:
            raise BadFlag(name, "must be at least 1")
    # Without a word of its own it is as --authenticate_http_frameworks, which is asked for itself.
    asked = {**flags, "authenticate_frameworks": flags["authenticate_frameworks"] is not False}
    check_address(
        asked,
        WALLS,
        reached_by="agents reach this master",
        credentials="credentials",
    )
    min_allocatable(flags["min_allocatable_resources"])
    sorter(flags)


_AGENTS_AT_ONCE = 100
"""So many agents are offered in one go, which takes 15 to 30 ms: others have their turn in between."""


def settings(flags: Mapping[str, Any], acls: Acls = OPEN) -> Settings:
    """Return the rules that the flags ask for; `acls`: those of --acls."""
    rules = Rules(
        filter_gpu_resources=flags["filter_gpu_resources"],
        excluded_names=frozenset(flags["fair_sharing_excluded_resource_names"]),
        min_allocatable=min_allocatable(flags["min_allocatable_resources"]),
    )
    return Settings(
        rules,
        allocation_interval_s=flags["allocation_interval"],
        roles=frozenset([*map(Role, flags["roles"]), ANY_ROLE]) if flags["roles"] else None,
        offer_timeout_s=flags["offer_timeout"],
        registry_max_agent_age_s=flags["registry_max_agent_age"],
        registry_max_agent_count=flags["registry_max_agent_count"],
        check_invariants=flags["check_invariants"],
        framework_metrics=flags["publish_per_framework_metrics"],
        root_submissions=flags["root_submissions"],
        max_watchers=flags["max_operator_event_stream_subscribers"],
        authenticate_frameworks=authenticates_drivers(flags),
        acls=acls,
        agents_at_once=_AGENTS_AT_ONCE,
        draw=Random().random if sorter(flags) == "random" else None,
    )


def authenticates_drivers(flags: Mapping[str, Any]) -> bool:
    """Return whether scheduler drivers must show who they are: by default, if frameworks over HTTP must."""
    asked = flags["authenticate_frameworks"]
    return bool(flags["authenticate_http_frameworks"] if asked is None else asked)


def sorter(flags: Mapping[str, Any]) -> str:
    """Return what decides whose turn it is, of roles and of frameworks: `drf` or `random`. Raises BadFlag."""
    role_flag = "role_sorter" if flags["user_sorter"] is None else "user_sorter"
    chosen: str = flags[role_flag]
    for name in (role_flag, "framework_sorter"):
        if flags[name] not in SORTERS:
            raise BadFlag(name, f"'{flags[name]}' is not one of {', '.join(SORTERS)}")
    if chosen != flags["framework_sorter"]:
        words = f"is {flags['framework_sorter']} and --{role_flag} is {chosen}: both must be the same, as in Mesos"
        raise BadFlag("framework_sorter", words)
    return chosen


def removal_interval_s(text: str | None) -> float:
    """Return the seconds between two agents given up, of `1/10mins` (agents/duration); 0: no limit. Raises BadFlag."""
    if text is None:
        return 0.0
    count, slash, duration = text.partition("/")
    try:
        if not slash or int(count) < 1:
            raise ValueError("it goes NUMBER/DURATION, as in 1/10mins")
        return parse_duration(duration) / int(count)
    except ValueError as error:
        raise BadFlag("agent_removal_rate_limit", f"'{text}': {error}") from None


def removal_share(text: str) -> float:
    """Return 0.25 of `25%`. Raises BadFlag."""
    number, sign, rest = text.partition("%")
    try:
        if not sign or rest:
            raise ValueError("it goes NUMBER%, as in 25%")
        share = float(number) / 100
        if not 0 <= share <= 1:
            raise ValueError("it is from 0% to 100%")
    except ValueError as error:
        raise BadFlag("recovery_agent_removal_limit", f"'{text}': {error}") from None
    return share


def min_allocatable(text: str) -> tuple[Quantities, ...]:
    """Read `cpus:0.01|mem:32`: quantities, all of at least one side. Raises BadFlag."""
    try:
        sides = [Resources.parse(side) for side in text.split("|") if side.strip()]
    except BadResources as error:
        raise BadFlag("min_allocatable_resources", str(error)) from None
    for side in sides:
        if any(not isinstance(resource.amount, int) for resource in side):
            raise BadFlag("min_allocatable_resources", f"{side} is not all numbers")
    return tuple(quantities(side) for side in sides)


def flags_as_text(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return the flags that are set, as Mesos shows them."""
    shown: dict[str, str] = {}
    for flag in FLAGS:
        value = flags[flag.name]
        if value is not None:
            shown[flag.name] = _text(flag, value)
    shown["role_sorter"] = shown.pop("user_sorter", shown["role_sorter"])
    return dict(sorted(shown.items()))


def _text(flag: Flag, value: Any) -> str:
    if flag.kind == "duration":
        return format_duration(value)
    if flag.kind == "boolean":
        return str(value).lower()
    return ",".join(value) if flag.kind == "list" else str(value)
