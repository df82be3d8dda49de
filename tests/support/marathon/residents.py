"""An agent that keeps reservations and volumes, as Mesos does: for tests of apps with persistent volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Action, Launch
from mesos_gpu.marathon.state.events import Offered
from mesos_gpu.mesos.conversions import applied, conversions
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import ROLE, SETTINGS, Run, app, offer, only, status

VOLUME = {"containerPath": "data", "mode": "RW", "persistent": {"size": 100}}
SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)
"""Apps without GPUs may take what an agent with GPUs has."""


def resident(app_id: str = "/a", *, volumes: Sequence[Mapping[str, Any]] = (VOLUME,), **changes: Any) -> dict[str, Any]:
    return app(app_id, container={"type": "MESOS", "volumes": [dict(v) for v in volumes]}, **changes)


def one(run: Run, app_id: str = "/a") -> Any:
    """Return the one instance of an app."""
    (instance,) = run.state.instances_of(app_id)
    return instance


class Agent:
    """One agent: what it has, free or used by tasks; every operation is applied by Mesos' own rule."""

    def __init__(self, run: Run, name: str = "S0", *, host: str = "h0", **has: Any) -> None:
        self.run, self.name, self.host = run, name, host
        self.whole = Resources.from_json(offer(**{"gpus": 2, **has})["resources"])
        self.free = self.whole
        self.tasks: dict[str, Resources] = {}
        self.infos: dict[str, Mapping[str, Any]] = {}
        self.executors: dict[str, tuple[frozenset[str], Resources]] = {}
        """The tasks that an executor was started with, and what it takes beside them, by its id."""
        self.kinds: list[str] = []
        self._offers = 0

    def offer(self) -> list[Action]:
        """Offer all that is free, and do what is asked."""
        self._offers += 1
        name = f"{self.name}-{self._offers}"
        document = {**offer(name, agent=self.name, host=self.host, ports=()), "resources": self.free.to_json()}
        actions = self.run.do(Offered([document]), after_s=0.1)
        for launch in only(actions, Launch):
            self.accept(launch)
        return actions

    def accept(self, launch: Launch) -> None:
        for operation in launch.operations:
            self.kinds.append(operation["type"])
            self.free = applied(self.free, conversions(operation))
        for info in launch.task_infos:
            self.kinds.append("LAUNCH")
            self._begin(info)
        for group in launch.groups:
            self.kinds.append("LAUNCH_GROUP")
            mine = frozenset(info["task_id"]["value"] for info in group.task_infos)
            taken = self._take(group.executor["resources"])
            self.executors[group.executor["executor_id"]["value"]] = mine, taken
            for info in group.task_infos:
                self._begin(info)

    def _begin(self, info: Mapping[str, Any]) -> None:
        self.tasks[info["task_id"]["value"]] = self._take(info["resources"])
        self.infos[info["task_id"]["value"]] = info

    def _take(self, resources: Sequence[Mapping[str, Any]]) -> Resources:
        taken = Resources.from_json(resources)
        assert self.free.contains(taken), f"{self.free} has not {taken}"
        self.free -= taken
        return taken

    def release(self, task_id: str) -> None:
        """Take back what a task used; an executor's share with the last of its tasks."""
        self.free += self.tasks.pop(task_id)
        for executor_id, (mine, taken) in list(self.executors.items()):
            if task_id in mine and mine.isdisjoint(self.tasks):
                del self.executors[executor_id]
                self.free += taken

    def siblings(self, task_id: str) -> list[str]:
        """Return the other tasks of the same group that still run."""
        return [
            other for mine, _ in self.executors.values() if task_id in mine for other in mine if other in self.tasks
        ]

    def end(self, task_id: str, state: str = "TASK_FAILED") -> list[Action]:
        self.release(task_id)
        return self.run.do(status(task_id, state))

    def settle(self, offers: int = 4) -> None:
        """Give offers until nothing changes, and let tasks run."""
        for _ in range(offers):
            self.offer()
            self.say_running()

    def say_running(self, tasks: Iterable[str] | None = None) -> None:
        for task_id in list(self.tasks if tasks is None else tasks):
            self.run.do(status(task_id))

    @property
    def kept(self) -> Resources:
        """What is reserved, free or in use."""
        everything = self.free
        for taken in (*self.tasks.values(), *(taken for _, taken in self.executors.values())):
            everything += taken
        return everything.filter(lambda r: bool(r.reservations))

    @property
    def volumes(self) -> list[str]:
        return sorted(r.persistence_id for r in self.kept if r.persistence_id is not None)


__all__ = ["ROLE", "VOLUME", "Agent", "resident"]
