"""The networks that an agent's containers may join, as its flags say."""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec import Struct, field

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.container.life.opening import NETWORKS as FOLDER
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.cni import NO_DNS, DefaultDns, read_default_dns
from mesos_gpu.errors import BadFlag, BadInput

log = logging.getLogger(__name__)

NETWORKS = "network/cni"
"""The isolator that joins containers to networks by CNI plugins, as --isolation names it."""


class NetworkSettings(Struct, frozen=True):
    """Where what is known of containers' networks is kept, and which they may join: without a folder, none."""

    folder: Path
    config_dir: Path | None = None
    plugin_dirs: tuple[Path, ...] = ()
    dns: DefaultDns = field(default_factory=lambda: NO_DNS)


def default_dns(flags: AgentFlags) -> DefaultDns:
    """Return what --default_container_dns says. Raises BadFlag."""
    if not flags.default_container_dns:
        return NO_DNS
    try:
        return read_default_dns(flags.default_container_dns)
    except BadInput as error:
        raise BadFlag("default_container_dns", str(error)) from None


def has_networks(flags: AgentFlags) -> bool:
    """Return whether containers may join any."""
    return NETWORKS in flags.isolation and bool(flags.network_cni_config_dir)


def domain_socket(flags: AgentFlags, runtime_dir: Path) -> Path | None:
    """Return where executors reach the agent that cannot use its address, or must not; None when there are none."""
    if not has_networks(flags) and not flags.http_executor_domain_sockets:
        return None
    return Path(flags.domain_socket_location or runtime_dir / "agent.sock").absolute()


def network_settings(flags: AgentFlags, work_dir: Path, runtime_dir: Path) -> NetworkSettings:
    """Return what the flags say of networks. Raises BadFlag."""
    folder = (work_dir if flags.network_cni_root_dir_persist else runtime_dir) / FOLDER
    config_dir, plugins_dir = flags.network_cni_config_dir, flags.network_cni_plugins_dir
    if not has_networks(flags) or config_dir is None or plugins_dir is None:
        return NetworkSettings(folder)
    plugins = tuple(Path(path).absolute() for path in plugins_dir.split(":") if path)
    return NetworkSettings(folder, Path(config_dir).absolute(), plugins, default_dns(flags))


def open_networks(settings: NetworkSettings) -> Networks:
    """Return the networks; of files in --network_cni_config_dir that cannot be used the log says why."""
    if settings.config_dir is None:
        return Networks(settings.folder)
    networks = Networks(settings.folder, settings.config_dir, settings.plugin_dirs, settings.dns)
    for problem in networks.configured()[1].values():
        log.warning("a network cannot be joined: %s", problem)
    return networks
