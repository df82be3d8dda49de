"""What the flags of `mesos-gpu-master` come to, each value with its type: read once, before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from mesos_gpu.master.agent_link.observers import Pace
from mesos_gpu.master.api.access import Access, open_access
from mesos_gpu.master.flags import check_flags, flags_as_text, removal_interval_s, removal_share, settings
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.mesos.leader import ZkUrl, parse_zk_url


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


def read_configuration(flags: Mapping[str, Any]) -> Configuration:
    """Return what the flags come to, with the files of credentials and lists that they name. Raises BadFlag."""
    check_flags(flags)
    access = open_access(flags)
    return Configuration(
        settings=settings(flags, access.acls),
        access=access,
        address=Address(
            flags["ip"],
            flags["port"],
            flags["advertise_ip"],
            flags["advertise_port"],
            flags["hostname"],
            flags["same_user_peers"],
        ),
        work_dir=Path(flags["work_dir"]),
        election=None
        if flags["zk"] is None
        else Election(parse_zk_url("zk", flags["zk"]), flags["zk_session_timeout"], flags["registry_store_timeout"]),
        registry_gc_interval_s=flags["registry_gc_interval"],
        agents=AgentCare(
            pace=Pace(flags["agent_ping_timeout"], flags["max_agent_ping_timeouts"]),
            only_authenticated=flags["authenticate_agents"],
            removal_interval_s=removal_interval_s(flags["agent_removal_rate_limit"]),
            patience_s=flags["agent_reregister_timeout"],
            most_missing=removal_share(flags["recovery_agent_removal_limit"]),
        ),
        cluster=flags["cluster"],
        json_suffixes=flags["json_suffixes"],
        log_file=flags["external_log_file"],
        http_hosts=flags["http_hosts"],
        shown=flags_as_text(flags),
    )
