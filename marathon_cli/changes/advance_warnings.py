"""What is said before an app is sent. Every `app add` pays for the imports of this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import MesosGpuError

ASKED = 8
"""How many agents with GPUs are asked for an image whose name says nothing."""

if TYPE_CHECKING:
    from marathon_cli.clients.client import Marathon
    from marathon_cli.clients.cluster import Cluster
    from mesos_gpu.marathon.matching.machines import Machine


def caution(marathon: Marathon, app: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Say what is likely to surprise about an app that is about to be sent. Raises nothing: it is advice."""
    from marathon_cli.clients.cluster import Cluster
    from mesos_gpu.marathon.why.request import rules_shown
    from mesos_gpu.marathon.why.warnings import may_lack_driver, warnings

    agents: list[Machine] | None = None
    brings_driver: bool | None = None
    config: Mapping[str, Any] = {}
    try:
        config = marathon.config()
        cluster = Cluster.of(marathon)
    except MesosGpuError:
        cluster = None
    if cluster is not None:
        try:
            agents = cluster.machines()
            if image := may_lack_driver(app):
                brings_driver = _brings_driver(cluster, agents, image)
        except MesosGpuError:
            pass
        finally:
            cluster.close()
    for sentence in warnings(app, agents, rules_shown(config, {}), brings_driver=brings_driver):
        say(f"warning: {sentence}")


def _brings_driver(cluster: Cluster, agents: Sequence[Machine], image: str) -> bool | None:
    """Return whether an image asks for the driver, as an agent that keeps it says; None where none does."""
    from mesos_gpu.images.reference import ImageReference

    def short(text: str) -> tuple[object, ...]:
        # By whatever registry an agent has it: its --docker_registry may be another than the name says.
        found = ImageReference.parse(text)
        return found.repository.removeprefix("library/"), found.tag, found.digest

    try:
        wanted = short(image)
        for kept in cluster.images([agent for agent in agents if agent.total.gpus][:ASKED]).values():
            for one in kept:
                if "nvidia_driver" in one and short(str(one.get("reference"))) == wanted:
                    return bool(one["nvidia_driver"])
    except MesosGpuError:
        pass  # a name that is none is the server's to refuse
    return None
