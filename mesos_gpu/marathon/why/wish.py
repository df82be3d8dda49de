"""What one instance of an app or pod needs of an agent. Pure.

Source: Marathon's mesos/ResourceMatcher.scala, mesos/Constraints.scala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.marathon.definitions.gpu_share import kept_share_of
from mesos_gpu.mesos.clients.agents import SCALARS, UNRESERVED
from mesos_gpu.mesos.shares.cgpu import ShareAsk

BEHAVIOUR_LABEL = "GPU_SCHEDULING_BEHAVIOR"
"""Marathon's label that lets one app without GPUs onto agents that have some, or keeps it off them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One instance. `roles` are those whose resources it takes; `ports` the host ports it must have."""

    id: str
    instances: int
    amounts: Mapping[str, float]
    roles: tuple[str, ...] = (UNRESERVED,)
    constraints: tuple[tuple[str, ...], ...] = ()
    ports: tuple[int, ...] = ()
    behaviour: str | None = None
    """restricted or unrestricted, as its label says; None where the Marathon decides."""
    first_health: float = 1.0
    over: float = 1.0
    """Of the instances: how many stay up during an update, and how many more there may be (upgradeStrategy)."""
    is_pod: bool = False
    is_job: bool = False
    """Whether it is a run of a job, called by the job's name; `instances` are the members of a gang then."""
    shares: tuple[ShareAsk, ...] = ()
    """The parts of shared GPUs that its tasks have."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Of an app: what is written in it; `amounts` have its executor and volumes, too."""
    keeps_data: bool = False
    """Whether it has persistent volumes: an instance goes where its data is."""
    gang: int = 1
    """How many instances start at once or not at all."""
    one_per_host: bool = False
    """Whether each of a gang is on a machine of its own."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs one instance takes."""
        return int(self.amounts.get("gpus", 0))

    def updated(self, *words: str) -> str:
        """Return the command that changes what was asked for; `words` as an app would have them."""
        if self.is_job:
            own = (f"run.{word}" for word in words if not word.startswith("instances="))
            return f"`mesos-gpu job update {self.id} {' '.join(own)}`"
        return f"`mesos-gpu {'pod' if self.is_pod else 'app'} update {self.id} {' '.join(words)}`"


def wish_of(document: Mapping[str, Any]) -> Wish:
    """Return what an app or a pod, as Marathon shows them, asks for."""
    return _of_pod(document) if isinstance(document.get("containers"), list) else _of_app(document)


def _of_app(app: Mapping[str, Any]) -> Wish:
    own = app.get("executorResources") if app.get("executor") not in (None, "", "//cmd") else None
    amounts = {name: float(app.get(name) or 0) + float((own or {}).get(name) or 0) for name in SCALARS}
    exact = [p.get("port") for p in app.get("portDefinitions") or []] if app.get("requirePorts") else []
    container = app.get("container") or {}
    mappings = container.get("portMappings") or (container.get("docker") or {}).get("portMappings") or []
    strategy = app.get("upgradeStrategy") or {}
    kept = [volume["persistent"] for volume in container.get("volumes") or [] if volume.get("persistent")]
    amounts["disk"] += _on_root(kept)
    gang = app.get("gang") or {}
    return Wish(
        id=str(app.get("id", "")),
        instances=int(app.get("instances", 1)),
        amounts=amounts,
        roles=_roles(app, app.get("acceptedResourceRoles")),
        constraints=_constraints(app.get("constraints")),
        ports=tuple(int(port) for port in [*exact, *(m.get("hostPort") for m in mappings)] if port),
        behaviour=_behaviour(app),
        first_health=float(strategy.get("minimumHealthCapacity", 0.5 if kept else 1)),
        over=float(strategy.get("maximumOverCapacity", 0 if kept else 1)),
        shares=_shares([(app.get("gpuShare"), app.get("env") or {})]),
        own={name: float(app.get(name) or 0) for name in SCALARS},
        keeps_data=bool(kept),
        gang=int(gang.get("size", 1)),
        one_per_host=bool(gang) and bool(gang.get("onePerHost", True)),
    )


def _of_pod(pod: Mapping[str, Any]) -> Wish:
    parts = [container.get("resources") or {} for container in pod["containers"]]
    parts.append(pod.get("executorResources") or {})
    scheduling = pod.get("scheduling") or {}
    placement = scheduling.get("placement") or {}
    constraints = [[c.get("fieldName"), c.get("operator"), c.get("value")] for c in placement.get("constraints") or []]
    endpoints = [e for container in pod["containers"] for e in container.get("endpoints") or []]
    upgrade = scheduling.get("upgrade") or {}
    kept = [volume["persistent"] for volume in pod.get("volumes") or [] if volume.get("persistent")]
    amounts = {name: sum(float(part.get(name) or 0) for part in parts) for name in SCALARS}
    amounts["disk"] += _on_root(kept)
    return Wish(
        id=str(pod.get("id", "")),
        instances=int((pod.get("scaling") or {}).get("instances", 1)),
        amounts=amounts,
        roles=_roles(pod, placement.get("acceptedResourceRoles")),
        constraints=_constraints([[part for part in c if part is not None] for c in constraints]),
        ports=tuple(int(endpoint["hostPort"]) for endpoint in endpoints if endpoint.get("hostPort")),
        behaviour=_behaviour(pod),
        first_health=float(upgrade.get("minimumHealthCapacity", 0.5 if kept else 1)),
        over=float(upgrade.get("maximumOverCapacity", 0 if kept else 1)),
        is_pod=True,
        keeps_data=bool(kept),
        shares=_shares(
            [
                (container.get("gpuShare"), {**(pod.get("environment") or {}), **(container.get("environment") or {})})
                for container in pod["containers"]
            ]
        ),
    )


def _shares(asks: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any]]]) -> tuple[ShareAsk, ...]:
    filled = ((None if share is None else {"weight": 1, "highPriority": False, **share}, env) for share, env in asks)
    found = (kept_share_of(share, env) for share, env in filled)
    return tuple(ask for ask in found if ask is not None)


def _on_root(kept: Sequence[Mapping[str, Any]]) -> float:
    """Return what persistent volumes take of an agent's own disk: those of type path or mount are of others."""
    return sum(float(disk.get("size") or 0) for disk in kept if disk.get("type", "root") == "root")


def _roles(document: Mapping[str, Any], accepted: Sequence[str] | None) -> tuple[str, ...]:
    given = accepted or (str(document.get("role") or UNRESERVED), UNRESERVED)
    return tuple(sorted(set(given), key=lambda role: (role == UNRESERVED, role)))


def _constraints(given: Sequence[Sequence[Any]] | None) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(str(part) for part in constraint) for constraint in given or [] if len(constraint) >= 2)


def _behaviour(document: Mapping[str, Any]) -> str | None:
    label = (document.get("labels") or {}).get(BEHAVIOUR_LABEL)
    return label if label in ("restricted", "unrestricted") else None
