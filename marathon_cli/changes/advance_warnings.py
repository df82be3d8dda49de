"""What is said before an app is sent. Every `app add` pays for this module's imports: see placement/warnings.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import MesosGpuError

if TYPE_CHECKING:
    from marathon_cli.clients.client import Marathon
    from mesos_gpu.mesos.clients.agents import Agent


def caution(marathon: Marathon, app: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Say what is likely to surprise about an app that is about to be sent. Raises nothing: it is advice."""
    from mesos_gpu.marathon.why.warnings import warnings

    for sentence in warnings(app, agents_of(marathon)):
        say(f"warning: {sentence}")


def agents_of(marathon: Marathon) -> list[Agent] | None:
    """Return the agents behind a Marathon; None where nobody tells."""
    from marathon_cli.clients.cluster import Cluster

    try:
        cluster = Cluster.of(marathon)
    except MesosGpuError:
        return None
    try:
        return cluster.agents()
    except MesosGpuError:
        return None
    finally:
        cluster.close()
