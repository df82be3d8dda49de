"""Who gives way: of what is preemptible and of less priority, that by whose end least is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mesos_gpu.queueing.places import places
from mesos_gpu.queueing.values import Ask, Free, Running, with_ended

Units = Mapping[str, Sequence[Running]]


def give_way(ask: Ask, free: Free, running: Sequence[Running], now_s: float) -> tuple[str, ...]:
    """Return the units that are to end so that `ask` fits: those by whose end least is lost; none if that is in vain.

    None either while it will fit once those have ended whose end has been asked for.
    """
    if not any(_gives_way(task, ask) for task in running):
        return ()
    soon = with_ended(free, (task for task in running if task.ending))
    if places(ask, soon) is not None:
        return ()
    units: dict[str, list[Running]] = {}
    for task in running:
        units.setdefault(task.unit, []).append(task)
    able = {name: tasks for name, tasks in units.items() if all(_gives_way(task, ask) for task in tasks)}
    losses = {name: _loss(tasks, now_s) for name, tasks in able.items()}
    order = sorted(able, key=lambda name: (losses[name], name))
    ways = [way for way in (_anywhere(ask, soon, able, order), _by_machine(ask, soon, able, order, losses)) if way]
    best: Sequence[str] = min(ways, key=lambda way: sum(losses[name] for name in way), default=())
    return tuple(best)


def _gives_way(task: Running, ask: Ask) -> bool:
    return task.preemptible and task.priority < ask.priority and not task.ending


def _loss(tasks: Iterable[Running], now_s: float) -> float:
    """Return what is lost with a unit: seconds that it has run times its GPUs; those of its CPUs where it has none."""
    return sum(
        max(0.0, now_s - task.since_s) * (task.demand.gpus or task.demand.cpus_milli / 1_000_000) for task in tasks
    )


def _enough(ask: Ask, free: Free, units: Units, names: Iterable[str]) -> bool:
    return places(ask, with_ended(free, (task for name in names for task in units[name]))) is not None


def _anywhere(ask: Ask, free: Free, units: Units, order: Sequence[str]) -> list[str]:
    """Return the units of least loss that are enough together, without those that turn out not to be needed."""
    chosen: list[str] = []
    for name in order:
        chosen.append(name)
        if _enough(ask, free, units, chosen):
            return _needed(ask, free, units, chosen)
    return []


def _by_machine(ask: Ask, free: Free, units: Units, order: Sequence[str], losses: Mapping[str, float]) -> list[str]:
    """Return the same, looked for machine by machine: a place for one member each, where least is lost for it."""
    one = Ask(ask.id, ask.rank, ask.demand, machines=ask.machines)
    ways: list[tuple[float, list[str]]] = []
    for machine in sorted({task.machine for name in order for task in units[name]} | free.keys()):
        here = {machine: free[machine]} if machine in free else {}
        local = {name: [t for t in units[name] if t.machine == machine] for name in order}
        local = {name: tasks for name, tasks in local.items() if tasks}
        alone = next((name for name in local if _enough(one, here, local, [name])), None)
        found = [[], *([[alone]] if alone is not None else [])]
        found.append(_anywhere(one, here, local, list(local)))
        fitting = [way for way in found if _enough(one, here, local, way)]
        if fitting:
            way = min(fitting, key=lambda each: sum(losses[name] for name in each))
            ways.append((sum(losses[name] for name in way), way))
    chosen: list[str] = []
    for _, way in sorted(ways, key=lambda pair: pair[0]):
        chosen += [name for name in way if name not in chosen]
        if _enough(ask, free, units, chosen):
            return _needed(ask, free, units, chosen)
    return []


def _needed(ask: Ask, free: Free, units: Units, chosen: Sequence[str]) -> list[str]:
    needed = list(chosen)
    for name in reversed(chosen):
        without = [each for each in needed if each != name]
        if _enough(ask, free, units, without):
            needed = without
    return needed
