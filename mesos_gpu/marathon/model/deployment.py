"""Deployments: what a change of an app does, step by step, and the arithmetic of a rolling restart.

Source: Marathon core/deployment/DeploymentPlan and TaskReplaceActor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec, differs_in_config


class Work(str, Enum):
    """What one action of a deployment does to one app; the values are Marathon's names."""

    START = "StartApplication"
    STOP = "StopApplication"
    SCALE = "ScaleApplication"
    RESTART = "RestartApplication"


class Step(Struct, frozen=True):
    """Actions that run side by side: pairs of what is done and the app it is done to."""

    actions: tuple[tuple[Work, str], ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A change under way. `original` and `target` map each affected app to its definition, None where there is none.

    `current` is the index of the step that runs. `version` names the change.
    """

    id: str
    version: str
    steps: tuple[Step, ...]
    original: Mapping[str, RunSpec | None]
    target: Mapping[str, RunSpec | None]
    current: int = 0
    apps: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    """The ids of the affected apps, sorted."""

    def __post_init__(self) -> None:
        """Sort once: every view of every app asks for them."""
        apps = tuple(sorted({app for step in self.steps for _, app in step.actions} or self.target))
        object.__setattr__(self, "apps", apps)

    def is_pod(self, app_id: str) -> bool:
        """Return whether one of those affected is a pod."""
        spec = self.target.get(app_id) or self.original.get(app_id)
        return spec is not None and spec.is_pod

    @property
    def finished(self) -> bool:
        """Return whether no step is left."""
        return self.current >= len(self.steps)


def plan(
    deployment_id: str,
    version: str,
    original: Mapping[str, RunSpec | None],
    target: Mapping[str, RunSpec | None],
    *,
    restart: bool = False,
    depths: Mapping[str, int] | None = None,
) -> Deployment:
    """Return the deployment that leads from `original` to `target`; a change of nothing has no steps.

    Stops come first, then starts (which only say that the app is there), then scaling and restarting: a step for each
    of the `depths` at which apps wait for others (0 for those not named), those that wait for none first.
    """
    stops = [(Work.STOP, app) for app in sorted(original) if original[app] is not None and target.get(app) is None]
    starts = [(Work.START, app) for app in sorted(target) if original.get(app) is None and target[app] is not None]
    changes = [
        (work, app)
        for app in sorted(target)
        if (work := _change(original.get(app), target[app], restart=restart)) is not None
    ]
    deep = depths or {}
    levels = [
        [change for change in changes if deep.get(change[1], 0) == depth]
        for depth in sorted({deep.get(app, 0) for _, app in changes})
    ]
    steps = tuple(Step(tuple(actions)) for actions in (stops, starts, *levels) if actions)
    return Deployment(deployment_id, version, steps, dict(original), dict(target))


def _change(old: RunSpec | None, new: RunSpec | None, *, restart: bool) -> Work | None:
    if new is None:
        return None
    if old is None:
        return Work.SCALE
    if restart or differs_in_config(old.document, new.document):
        return Work.RESTART if new.instances else Work.SCALE
    return Work.SCALE if old.instances != new.instances else None


class Counts(Struct, frozen=True):
    """The instances of an app that is being restarted. Old ones have an outdated definition.

    `old` are those meant to run, `old_healthy` of them healthy; `old_active` are all that have a task, those being
    killed too. `new` are those meant to run, `new_healthy` of them healthy.
    """

    old: int
    old_healthy: int
    old_active: int
    new: int
    new_healthy: int


class Rolling(Struct, frozen=True):
    """The next move of a rolling restart: how many old instances to end and new ones to create."""

    kill: int
    start: int


def rolling(spec: RunSpec, counts: Counts, *, resident: bool = False) -> Rolling:
    """Return what may be done now without too few healthy instances, or too many at once.

    minHealthy = ceil(n * minimumHealthCapacity), maxCapacity = floor(n * (1 + maximumOverCapacity)). Where both
    leave no room at all, a new instance may go over (or, with volumes of its own, an old one below) by one. Each new
    one that is healthy lets an old one go, also one that is not. Of an app of gangs n counts gangs, and each is
    replaced as a whole; a new one that has lost members gets others.
    """
    unit = spec.gang_size
    n = spec.instances // unit
    strategy = spec.document["upgradeStrategy"]
    # Rounded first: 10 * 0.7 is a hair over 7 in binary, and ceil would make it 8.
    min_healthy = math.ceil(round(n * strategy["minimumHealthCapacity"], 6))
    max_capacity = math.floor(round(n * (1 + strategy["maximumOverCapacity"]), 6))
    old, new, old_active = -(-counts.old // unit), -(-counts.new // unit), -(-counts.old_active // unit)
    new_healthy = counts.new_healthy // unit
    healthy = counts.old_healthy // unit + new_healthy
    kill = max(0, healthy - min_healthy)
    if min_healthy == max_capacity and max_capacity <= healthy:
        if resident:
            kill = healthy - min_healthy + 1
        else:
            max_capacity += 1
    # Of those the unhealthy go first: what is healthy stays so, up to n.
    kill = min(old, max(kill, old - (n - new_healthy)))
    start = min(n - new, max_capacity - old_active - new)
    lost = min(-counts.new % unit, max(0, spec.instances - counts.new))
    return Rolling(kill=kill * unit, start=max(0, start) * unit + lost)
