"""Mesos in a box: master, agents and Marathon as processes of one machine, watched over by one more.

The one place that puts the services together. Each is a program of its own; they meet over HTTP and libprocess, so
nothing here imports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesos_gpu.local.commands import down, status, up
    from mesos_gpu.local.plan import UpOptions

__all__ = ["UpOptions", "down", "status", "up"]


def __getattr__(name: str) -> Any:
    """Import the commands when one is called: who only wants to know how boxes are laid out need not wait for them."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mesos_gpu.local import commands, plan

    return getattr(plan if name == "UpOptions" else commands, name)
