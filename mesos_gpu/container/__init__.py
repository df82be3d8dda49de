"""UCR containers: a bundle, an OCI runtime, a supervisor and a sandbox."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesos_gpu.container.host.mounts import enter_private_mounts
    from mesos_gpu.container.life.containerizer import Containerizer
    from mesos_gpu.container.life.opening import open_containerizer
    from mesos_gpu.container.spec.config import ContainerConfig, Termination

__all__ = ["ContainerConfig", "Containerizer", "Termination", "enter_private_mounts", "open_containerizer"]
_WHERE = {
    "ContainerConfig": "spec.config",
    "Containerizer": "life.containerizer",
    "Termination": "spec.config",
    "enter_private_mounts": "host.mounts",
    "open_containerizer": "life.opening",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: who looks for a runtime only, as `mesos-gpu up` does, need not wait for all."""
    if name not in _WHERE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
