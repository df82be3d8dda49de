"""A Mesos cluster as a pytest fixture, for anybody's framework: real services, real containers, simulated GPUs.

Installed beside pytest, it gives two fixtures, `mesos_box` for a test and `mesos_box_factory` for a whole run; each is
called with what is wanted and returns a `MesosBox`. docs/do/frameworks.md shows how. Nothing is imported, and no
process started, until a test asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesos_gpu.testing.box import BoxAgent as BoxAgent
    from mesos_gpu.testing.box import MesosBox as MesosBox
    from mesos_gpu.testing.factory import BoxFactory as BoxFactory

__all__ = ["BoxAgent", "BoxFactory", "MesosBox"]


def __getattr__(name: str) -> Any:
    """Import what annotations need only when it is named: pytest loads this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mesos_gpu.testing import box, factory

    return getattr(factory if name == "BoxFactory" else box, name)
