"""What a Marathon's configuration means for the apps it accepts."""

from __future__ import annotations

from dataclasses import dataclass

from mesos_gpu.mesos.ids import ANY_ROLE, Role

FEATURES = frozenset({"vips", "task_killing", "external_volumes", "secrets", "gpu_resources"})
"""Every feature that `--enable_features` knows."""

GPU_SHARE = "gpu_share"
"""What this project's Marathon names among the `features` of /v2/info: it can ask for parts of GPUs."""

GANGS = "gangs"
"""The same for `gang`, `priority`, `preemptible` and `maxRuntimeSeconds`."""

MATCHING_FLAGS = ("accepted_resource_roles_default_behavior", "gpu_scheduling_behavior")
"""Flags that decide how offers are matched. This project's Marathon names them among the features, as FLAG=VALUE:
clients refuse keys of /v2/info that they do not know."""

BRIDGE_NAME = "mesos-bridge"
"""What --mesos_bridge_name is by default."""


@dataclass(frozen=True, slots=True)
class AppRules:
    """The settings of one Marathon that decide whether it accepts an app.

    `mesos_role` is its `--mesos_role`, `features` its `--enable_features`, `default_network_name` and
    `bridge_name` the flags of those names. `enforced_groups` are the top-level groups with enforceRole, or None
    when that is not known. `strict` (--strict_compatibility) keeps to slips of Marathon's own. `known=False` (the
    command line, before it could ask) leaves every rule that depends on these settings to the server.
    """

    mesos_role: Role = ANY_ROLE
    features: frozenset[str] = frozenset({"gpu_resources"})
    default_network_name: str | None = None
    bridge_name: str = BRIDGE_NAME
    enforced_groups: frozenset[str] | None = frozenset()
    known: bool = True
    strict: bool = False
    shares: bool = True
    """Whether it can ask for parts of GPUs: this project's can, Mesosphere's drops `gpuShare` without a word."""
    gangs: bool = True
    """Whether it knows of gangs, and of an order of what waits: this project's does."""
