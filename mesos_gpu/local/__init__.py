"""Mesos in a box: master, agents and Marathon as processes of one machine, watched over by one more.

The one place that puts the services together. Each is a program of its own; they meet over HTTP and libprocess, so
nothing here imports them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesos_gpu.local.commands import down, status, up
    from mesos_gpu.local.control import ask
    from mesos_gpu.local.installed import find_installed
    from mesos_gpu.local.plan import UpOptions
    from mesos_gpu.local.purging import kept, purge

__all__ = ["UpOptions", "ask", "down", "find_installed", "kept", "purge", "status", "up"]
_ELSEWHERE = {
    "UpOptions": "plan",
    "ask": "control",
    "find_installed": "installed",
    "kept": "purging",
    "purge": "purging",
}


def __getattr__(name: str) -> Any:
    """Import the commands when one is called: who only wants to know how boxes are laid out need not wait for them."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"mesos_gpu.local.{_ELSEWHERE.get(name, 'commands')}"), name)
