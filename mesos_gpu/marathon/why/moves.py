"""Which tasks would have to move, and where to, so that GPUs that nothing can use could be used: the fewest. Pure.

Suggestions only: nobody acts on them. A task that moves starts where it goes before it ends where it is, so there must
be room for it at once. Tasks that are bound to their place, or to each other, are left where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.why.fragments import ASKED, Size, filled, left_of
from mesos_gpu.marathon.why.request import spec_of

MOST_AT_ONCE = 3
"""So many tasks are moved together at most for one gain; a gain may be followed by another."""
MOST_GAINS = 20
_TRIES = 200_000
"""So many moves are tried for one gain at most: a second. In a large cluster the best may then be missed."""

Left = tuple[int, int, int]
"""Thousandths of GPUs, CPUs and MiB."""


class Movable(Struct, frozen=True):
    """A task that may run elsewhere as well."""

    app: str
    task_id: str
    agent_id: str
    needs: Left


class Move(Struct, frozen=True):
    """One task, and where it would go."""

    task: Movable
    to: str


class Gain(Struct, frozen=True):
    """Moves that together make `gpus` more GPUs usable; none fewer would do as much as one."""

    moves: tuple[Move, ...]
    gpus: int


def movable_of(apps: Sequence[Mapping[str, Any]]) -> list[Movable]:
    """Return the tasks of apps (with their `tasks`, as Marathon embeds them) that are bound to nothing.

    Left are those with volumes, constraints, host ports, parts of shared GPUs or roles of their own choice, gangs,
    pods, jobs, and what is being changed.
    """
    return [
        Movable(spec.id, str(task.get("id")), str(task.get("slaveId")), _left(spec.asked))
        for app in apps
        for spec in (spec_of(app),)
        if not _is_bound(app, spec)
        for task in app.get("tasks") or ()
        if task.get("state") == "TASK_RUNNING" and _is_of_now(task, app)
    ]


def plan_moves(agents: Sequence[Machine], sizes: Sequence[Size], tasks: Sequence[Movable]) -> list[Gain]:
    """Return gains, the one with the fewest moves first and of those the largest, until nothing is gained any more."""
    board = _Board(agents, sizes, tasks)
    found: list[Gain] = []
    while len(found) < MOST_GAINS and (gain := board.next_gain()) is not None:
        found.append(gain)
        for move in gain.moves:
            board.move(move)
    return found


class _Board:
    """Machines with what is left of them, and the tasks that may move."""

    def __init__(self, agents: Sequence[Machine], sizes: Sequence[Size], tasks: Sequence[Movable]) -> None:
        self._sizes = list(sizes)
        usable = [agent for agent in agents if agent.takes_tasks]
        self._left = {str(agent.id): _left(left_of(agent)) for agent in usable}
        # What is reserved there is for somebody.
        self._open = [str(agent.id) for agent in usable if not agent.total.reserved_roles()]
        self._tasks = [task for task in tasks if task.agent_id in self._left]
        self._known: dict[Left, int] = {}
        self._tries = 0

    def next_gain(self) -> Gain | None:
        if not self._sizes or not any(self._stranded(left) for left in self._left.values()):
            return None
        for count in range(1, MOST_AT_ONCE + 1):
            best: tuple[tuple[int, ...], tuple[Move, ...]] | None = None
            self._tries = 0
            for moves, gained in self._tried(count, ()):
                # More GPUs, then the smaller tasks, then as they come.
                worth = (gained, *(-sum(move.task.needs[at] for move in moves) for at in range(3)))
                if gained > 0 and (best is None or worth > best[0]):
                    best = worth, moves
            if best is not None:
                return Gain(best[1], best[0][0] // 1000)
        return None

    def move(self, move: Move) -> None:
        """Have a task elsewhere."""
        self._shift(move.task.agent_id, move.task.needs, 1)
        self._shift(move.to, move.task.needs, -1)
        self._tasks.remove(move.task)
        self._tasks.append(Movable(move.task.app, move.task.task_id, move.to, move.task.needs))

    def _tried(self, count: int, before: tuple[Move, ...]) -> Iterator[tuple[tuple[Move, ...], int]]:
        """Yield moves in the order in which they are possible, with the GPUs (thousandths) that all gain."""
        if len(before) == count:
            yield before, 0
            return
        touched = {at for move in before for at in (move.task.agent_id, move.to)}
        for task in self._kinds({move.task.task_id for move in before}, touched):
            if self._tries >= _TRIES:
                return
            source = self._gain(task.agent_id, task.needs, 1)
            self._shift(task.agent_id, task.needs, 1)
            for to in self._targets(task, touched):
                # What is no part of the same machines gains by itself, and would have been found with fewer moves.
                if self._tries >= _TRIES or (before and not {task.agent_id, to} & touched):
                    continue
                self._tries += 1
                gained = source + self._gain(to, task.needs, -1)
                self._shift(to, task.needs, -1)
                for moves, more in self._tried(count, (*before, Move(task, to))):
                    yield moves, gained + more
                self._shift(to, task.needs, 1)
            self._shift(task.agent_id, task.needs, -1)

    def _kinds(self, moved: set[str], touched: set[str]) -> list[Movable]:
        """Return a task of each kind: equal ones on machines of which the same is left are one kind."""
        kinds: dict[object, Movable] = {}
        beside: dict[str, list[Left]] = {}
        for task in self._tasks:
            beside.setdefault(task.agent_id, []).append(task.needs)
        # Two machines are alike only where the same could leave them.
        alike = {agent_id: tuple(sorted(needs)) for agent_id, needs in beside.items()}
        for task in self._tasks:
            if task.task_id not in moved:
                at = task.agent_id if task.agent_id in touched else ""
                kinds.setdefault((task.needs, at, self._left[task.agent_id], alike[task.agent_id]), task)
        return sorted(kinds.values(), key=lambda task: -self._gain(task.agent_id, task.needs, 1))

    def _targets(self, task: Movable, touched: set[str]) -> list[str]:
        kinds: dict[object, str] = {}
        for agent_id in self._open:
            left = self._left[agent_id]
            if agent_id != task.agent_id and all(have >= need for have, need in zip(left, task.needs, strict=True)):
                kinds.setdefault((left, agent_id if agent_id in touched else ""), agent_id)
        return sorted(kinds.values(), key=lambda agent_id: (self._left[agent_id][0], agent_id))

    def _gain(self, agent_id: str, needs: Left, sign: int) -> int:
        """Return how many GPUs fewer are stranded on a machine with so much more (1) or less (-1) left."""
        left = self._left[agent_id]
        return self._stranded(left) - self._stranded(_plus(left, needs, sign))

    def _shift(self, agent_id: str, needs: Left, sign: int) -> None:
        self._left[agent_id] = _plus(self._left[agent_id], needs, sign)

    def _stranded(self, left: Left) -> int:
        if left not in self._known:
            self._known[left] = filled(dict(zip(ASKED, left, strict=True)), self._sizes)["gpus"]
        return self._known[left]


def _plus(left: Left, needs: Left, sign: int) -> Left:
    return left[0] + sign * needs[0], left[1] + sign * needs[1], left[2] + sign * needs[2]


def _left(amounts: Mapping[str, int]) -> Left:
    gpus, cpus, mem = (amounts.get(name, 0) for name in ASKED)
    return gpus, cpus, mem


def _is_bound(app: Mapping[str, Any], spec: RunSpec) -> bool:
    container = app.get("container") or {}
    return bool(
        spec.is_pod
        or spec.document["constraints"]
        or any(wish.number is not None for wish in spec.ports)
        or spec.largest_share is not None
        or app.get("gang")
        or app.get("acceptedResourceRoles")
        or app.get("deployments")
        or any(volume.get("persistent") or volume.get("external") for volume in container.get("volumes") or ())
    )


def _is_of_now(task: Mapping[str, Any], app: Mapping[str, Any]) -> bool:
    """Return whether a task runs what the app says now: what it has is not told otherwise."""
    changed = (app.get("versionInfo") or {}).get("lastConfigChangeAt")
    return changed is None or str(task.get("version", "")) >= str(changed)
