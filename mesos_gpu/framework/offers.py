"""An offer as a framework with GPUs reads it, and the tasks that it has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.framework.tasks import GpuTask
from mesos_gpu.mesos.documents import AgentIdDocument, ExecutorInfo, OfferIdDocument, TaskInfo
from mesos_gpu.mesos.ids import ExecutorId, FrameworkId, Role, id_problem
from mesos_gpu.mesos.resource import UNRESERVED, Document, Resource, ResourceDocument, merge_ranges, scalar_text
from mesos_gpu.mesos.resources import WHOLE, Resources

EXECUTOR = {"cpus": 100, "mem": 32_000, "disk": 10_000}
"""What the executor of a task group holds unless told otherwise, in thousandths; the least is 0.01 CPUs and 32 MB."""
_UNITS = {"cpus": "CPUs", "mem": "MiB of memory", "disk": "MiB of disk"}


class Offered:
    """One offer, and what is left of it while tasks are made of it.

    `launch` and `launch_group` take from it what the tasks ask for: first what is reserved for the framework's roles,
    then what anyone may have. Persistent volumes and revocable resources stay out of it.
    """

    def __init__(self, offer: Mapping[str, Any]) -> None:
        """`offer` is Mesos' v1 Offer as a scheduler's `resourceOffers` gets it, a dict or an addict.Dict."""
        self.offer = offer
        self._left = Resources.from_json(offer.get("resources", [])).filter(_for_any_task)
        # A resource goes back as it came: in the format of RESERVATION_REFINEMENT when the offer is in it.
        self._refined = not any("role" in resource for resource in offer.get("resources", []))
        reserved = [role for role in dict.fromkeys(r.role for r in self._left) if role != UNRESERVED]
        self._roles = [*sorted(reserved, key=lambda role: -role.count("/")), UNRESERVED]

    @property
    def id(self) -> OfferIdDocument:
        """Return the OfferID, as drivers take it."""
        return {"value": self.offer["id"]["value"]}

    @property
    def agent_id(self) -> AgentIdDocument:
        """Return the AgentID."""
        return {"value": self.offer["agent_id"]["value"]}

    @property
    def hostname(self) -> str:
        """Return the agent's name."""
        return str(self.offer["hostname"])

    @property
    def role(self) -> Role:
        """Return which of the framework's roles it is offered to; `*` without MULTI_ROLE, when offers do not tell."""
        return Role(self.offer.get("allocation_info", {}).get("role", UNRESERVED))

    @property
    def gpus(self) -> int:
        """Return how many GPUs are left."""
        return self._left.gpus

    @property
    def cpus(self) -> float:
        """Return how many CPUs are left."""
        return self._left.value("cpus")

    @property
    def mem_mib(self) -> float:
        """Return how much memory is left."""
        return self._left.value("mem")

    @property
    def disk_mib(self) -> float:
        """Return how much disk is left."""
        return self._left.value("disk")

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the agent's attributes: texts, numbers, sets as frozensets, ranges as (begin, end) pairs."""
        return {attribute["name"]: _attribute(attribute) for attribute in self.offer.get("attributes", [])}

    @property
    def gpu_model(self) -> str | None:
        """Return the model of the agent's GPUs, such as `NVIDIA-H200` (several: joined by `/`); None if it tells none.

        This attribute and the following ones are what agents of this project add; operators of others may do so, too.
        """
        return self._text("gpu_model")

    @property
    def gpu_memory_mib(self) -> int | None:
        """Return the memory of the agent's smallest GPU, None if it does not tell."""
        value = self.attributes.get("gpu_memory_mib")
        return int(value) if isinstance(value, (int, float)) else None

    @property
    def gpu_driver(self) -> str | None:
        """Return the version of the agent's NVIDIA driver, None if it does not tell."""
        return self._text("gpu_driver")

    def fits(self, *tasks: GpuTask) -> bool:
        """Return whether all of these tasks have room in what is left."""
        return self._short(_sum(tasks), sum(task.ports for task in tasks)) is None

    def launch(self, task: GpuTask) -> TaskInfo:
        """Take what `task` asks for and return its TaskInfo, for `driver.launchTasks`.

        Raises NotEnoughGpus, or Conflict for other resources, when it has no room; then nothing is taken.
        """
        resources, ports = self._take(task.scalars(), task.ports)
        return task.info(self.agent_id, resources, ports)

    def launch_group(
        self, executor_id: str, framework_id: str | Mapping[str, Any], tasks: Sequence[GpuTask]
    ) -> Document:
        """Take what a task group asks for and return its LAUNCH_GROUP operation, for `driver.acceptOffers`.

        Its tasks start together, in one container with one network, under Mesos' default executor, which holds a little
        itself; when one fails the others are ended.

        Raises NotEnoughGpus or Conflict when it has no room, BadInput for a bad id, no tasks or two of one id; then
        nothing is taken.
        """
        problem = id_problem(executor_id)
        if problem is not None:
            raise BadInput(f"executor_id: {problem}")
        _check_group(executor_id, tasks)
        self._check(_sum(tasks, EXECUTOR), sum(task.ports for task in tasks))
        resources, _ = self._take(EXECUTOR, 0)
        given = framework_id if isinstance(framework_id, str) else framework_id["value"]
        executor: ExecutorInfo = {
            "type": "DEFAULT",
            "executor_id": {"value": ExecutorId(executor_id)},
            "framework_id": {"value": FrameworkId(given)},
            "resources": resources,
        }
        return _launch_group(executor, [self.launch(task) for task in tasks])

    def join_group(self, executor: Mapping[str, Any], tasks: Sequence[GpuTask]) -> Document:
        """Return the operation that adds tasks to a group of this agent that runs already.

        `executor` is the ExecutorInfo that `launch_group` made: a master takes no other one. Raises as `launch_group`.
        """
        _check_group(executor["executor_id"]["value"], tasks)
        self._check(_sum(tasks), sum(task.ports for task in tasks))
        return _launch_group(executor, [self.launch(task) for task in tasks])

    def _text(self, name: str) -> str | None:
        value = self.attributes.get(name)
        return value if isinstance(value, str) else None

    def _short(self, scalars: Mapping[str, int], ports: int) -> Conflict | None:
        """Return what there is too little of, None when all is there."""
        for name, asked in scalars.items():
            found = self._left.milli(name)
            if asked > found and name == "gpus":
                return NotEnoughGpus(asked=asked // WHOLE, free=found // WHOLE)
            if asked > found:
                return Conflict(f"asked for {scalar_text(asked)} {_UNITS[name]}, but {scalar_text(found)} are left")
        free = sum(end - begin + 1 for begin, end in self._left.ports)
        return None if ports <= free else Conflict(f"asked for {ports} ports, but {free} are left")

    def _check(self, scalars: Mapping[str, int], ports: int) -> None:
        short = self._short(scalars, ports)
        if short is not None:
            raise short

    def _take(self, scalars: Mapping[str, int], ports: int) -> tuple[list[ResourceDocument], list[int]]:
        self._check(scalars, ports)
        taken = Resources()
        for name, asked in scalars.items():
            found = self._left.find(name, asked, self._roles)
            assert found is not None, name
            taken += found
        numbers: list[int] = []
        for resource in sorted(self._left, key=lambda r: self._roles.index(r.role)):
            if resource.name == "ports" and isinstance(resource.amount, tuple):
                mine = _first(resource.amount, ports - len(numbers))
                numbers += mine
                taken += Resources([replace(resource, amount=merge_ranges(tuple((n, n) for n in mine)))])
        self._left -= taken
        return taken.to_json(refined=self._refined), numbers


def _check_group(name: str, tasks: Sequence[GpuTask]) -> None:
    if not tasks:
        raise BadInput(f"the task group {name} has no tasks")
    if len({task.id for task in tasks}) != len(tasks):
        raise BadInput(f"the task group {name} has two tasks of one id")


def _launch_group(executor: Mapping[str, Any], infos: Sequence[TaskInfo]) -> Document:
    launch = {"executor": dict(executor), "task_group": {"tasks": list(infos)}}
    return {"type": "LAUNCH_GROUP", "launch_group": launch}


def _for_any_task(resource: Resource) -> bool:
    return not resource.revocable and not resource.shared and not resource.disk


def _sum(tasks: Sequence[GpuTask], start: Mapping[str, int] | None = None) -> dict[str, int]:
    total = dict(start or {})
    for task in tasks:
        for name, asked in task.scalars().items():
            total[name] = total.get(name, 0) + asked
    return total


def _first(ranges: Sequence[tuple[int, int]], count: int) -> list[int]:
    found: list[int] = []
    for begin, end in ranges:
        found += range(begin, min(end, begin + count - len(found) - 1) + 1)
    return found


def _attribute(attribute: Mapping[str, Any]) -> Any:
    match attribute["type"]:
        case "SCALAR":
            return attribute["scalar"]["value"]
        case "SET":
            return frozenset(attribute["set"].get("item", ()))
        case "RANGES":
            return tuple((r["begin"], r["end"]) for r in attribute["ranges"].get("range", ()))
        case _:
            return str(attribute["text"]["value"])
