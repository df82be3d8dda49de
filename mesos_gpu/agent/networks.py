"""The networks that an agent's containers may join, as its flags say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.agent.flags import NETWORKS
from mesos_gpu.container.networks import Networks
from mesos_gpu.container.opening import NETWORKS as FOLDER

log = logging.getLogger(__name__)


def has_networks(flags: Mapping[str, Any]) -> bool:
    """Tell whether containers may join any."""
    return NETWORKS in flags["isolation"] and bool(flags["network_cni_config_dir"])


def open_networks(flags: Mapping[str, Any], work_dir: Path, runtime_dir: Path) -> Networks:
    """Return the networks; of files in --network_cni_config_dir that cannot be used the log says why."""
    folder = (work_dir if flags["network_cni_root_dir_persist"] else runtime_dir) / FOLDER
    if not has_networks(flags):
        return Networks(folder)
    plugins = [Path(path).absolute() for path in flags["network_cni_plugins_dir"].split(":") if path]
    networks = Networks(folder, Path(flags["network_cni_config_dir"]).absolute(), plugins)
    for problem in networks.configured()[1].values():
        log.warning("a network that nobody can join: %s", problem)
    return networks
