"""What the flags of `mesos-gpu-master` mean together: read once, before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from mesos_gpu.errors import BadFlag, BadResources
from mesos_gpu.master.agent_link.observers import Pace
from mesos_gpu.master.allocation.eligibility import Rules, quantities
from mesos_gpu.master.api.access import Access, authenticates_drivers, open_access, protections
from mesos_gpu.master.flags import COMMAND_LINE, MasterFlags
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.mesos.flags import flags_as_text
from mesos_gpu.mesos.ids import ANY_ROLE, Role
from mesos_gpu.mesos.leader import ZkUrl, parse_zk_url
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.mesos.units import parse_duration
from mesos_gpu.process.access import check_address


class Address(Struct, frozen=True):
    """Where to listen, and where others reach that when it is not the same."""

    ip: str
    port: int
    advertise_ip: str | None
    advertise_port: int | None
    hostname: str | None
    """Under which name the master is shown; None: its address."""
    same_user_peers: bool
    """Messages are taken from programs of root and of the master's user alone."""


class Election(Struct, frozen=True):
    """Where masters are elected, and what they keep."""

    url: ZkUrl
    session_timeout_s: float
    store_timeout_s: float


class AgentCare(Struct, frozen=True):
    """How agents are watched, and when they are given up."""

    pace: Pace
    only_authenticated: bool
    removal_interval_s: float
    """Between two agents that are given up; 0: no limit."""
    patience_s: float
    """How long one may stay away."""
    most_missing: float
    """The share of the registry's agents that may be missing when this time is over after our start."""


class Configuration(Struct, frozen=True):
    """All that a master is told. `election` None: it is the only one, with a registry in `work_dir`."""

    settings: Settings
    access: Access
    address: Address
    work_dir: Path
    election: Election | None
    registry_gc_interval_s: float
    agents: AgentCare
    cluster: str | None
    json_suffixes: bool
    log_file: str | None
    http_hosts: Sequence[str]
    """Names by which browsers may come beside the machine's own."""
    shown: Mapping[str, str]
    """The flags as /flags shows them."""


def read_configuration(flags: MasterFlags) -> Configuration:
    """Return what the flags come to, with the files of credentials and lists that they name. Raises BadFlag."""
    check_flags(flags)
    access = open_access(flags)
    return Configuration(
        settings=settings(flags, access.acls),
        access=access,
        address=Address(
            flags.ip,
            flags.port,
            flags.advertise_ip,
            flags.advertise_port,
            flags.hostname,
            flags.same_user_peers,
        ),
        work_dir=Path(flags.work_dir),
        election=None
        if flags.zk is None
        else Election(parse_zk_url("zk", flags.zk), flags.zk_session_timeout, flags.registry_store_timeout),
        registry_gc_interval_s=flags.registry_gc_interval,
        agents=AgentCare(
            pace=Pace(flags.agent_ping_timeout, flags.max_agent_ping_timeouts),
            only_authenticated=flags.authenticate_agents,
            removal_interval_s=removal_interval_s(flags.agent_removal_rate_limit),
            patience_s=flags.agent_reregister_timeout,
            most_missing=removal_share(flags.recovery_agent_removal_limit),
        ),
        cluster=flags.cluster,
        json_suffixes=flags.json_suffixes,
        log_file=flags.external_log_file,
        http_hosts=flags.http_hosts,
        shown=shown_flags(flags),
    )


def check_flags(flags: MasterFlags) -> None:
    """Refuse flags that contradict each other. Raises BadFlag."""
    removal_interval_s(flags.agent_removal_rate_limit)
    removal_share(flags.recovery_agent_removal_limit)
    for name, asked in (
        ("authenticate_agents", flags.authenticate_agents),
        ("authenticate_frameworks", authenticates_drivers(flags)),
    ):
        if asked and flags.credentials is None:
            raise BadFlag("credentials", f"is needed with --{name}: the file of principals and secrets")
    if flags.zk is not None:
        parse_zk_url("zk", flags.zk)
    check_address(
        flags.ip,
        flags.advertise_ip,
        protections(flags),
        insecure=flags.insecure,
        reached_by="agents reach this master",
        credentials="credentials",
    )
    min_allocatable(flags.min_allocatable_resources)
    sorter(flags)


_AGENTS_AT_ONCE = 100
"""So many agents are offered in one go, which takes 15 to 30 ms: others have their turn in between."""


def settings(flags: MasterFlags, acls: Acls = OPEN) -> Settings:
    """Return the rules that the flags ask for; `acls`: those of --acls."""
    rules = Rules(
        filter_gpu_resources=flags.filter_gpu_resources,
        excluded_names=frozenset(flags.fair_sharing_excluded_resource_names),
        min_allocatable=min_allocatable(flags.min_allocatable_resources),
    )
    return Settings(
        rules,
        allocation_interval_s=flags.allocation_interval,
        roles=frozenset([*map(Role, flags.roles), ANY_ROLE]) if flags.roles else None,
        offer_timeout_s=flags.offer_timeout,
        registry_max_agent_age_s=flags.registry_max_agent_age,
        registry_max_agent_count=flags.registry_max_agent_count,
        check_invariants=flags.check_invariants,
        framework_metrics=flags.publish_per_framework_metrics,
        root_submissions=flags.root_submissions,
        max_watchers=flags.max_operator_event_stream_subscribers,
        authenticate_frameworks=authenticates_drivers(flags),
        acls=acls,
        agents_at_once=_AGENTS_AT_ONCE,
        draw=Random().random if sorter(flags) == "random" else None,
    )


def sorter(flags: MasterFlags) -> str:
    """Return what decides whose turn it is, of roles and of frameworks: `drf` or `random`. Raises BadFlag."""
    role_flag, chosen = "role_sorter", flags.role_sorter
    if flags.user_sorter is not None:
        role_flag, chosen = "user_sorter", flags.user_sorter
    if chosen != flags.framework_sorter:
        words = f"is {flags.framework_sorter} and --{role_flag} is {chosen}: both must be the same, as in Mesos"
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


def shown_flags(flags: MasterFlags) -> dict[str, str]:
    """Return the flags as /flags shows them: without those of every program, and the sorter by its current name."""
    named = {flag.name for flag in COMMAND_LINE.service_flags}
    shown = {name: text for name, text in flags_as_text(flags).items() if name in named}
    shown["role_sorter"] = shown.pop("user_sorter", shown["role_sorter"])
    return shown
