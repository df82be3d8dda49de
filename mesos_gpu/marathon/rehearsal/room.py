"""Whether there could be room for an app at all, after one more step: a quick look before it is played. Pure.

It never says no to what would start: what may give way counts as free, and order, constraints, roles and ports are
left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesos_gpu.marathon.rehearsal.scene import Node
from mesos_gpu.marathon.why.change import Step

Amounts = dict[str, int]


class Room:
    """What there is on each machine after some steps, with all that could come free."""

    def __init__(self, node: Node) -> None:
        self._node = node
        state = node.stage.state
        self._names = ("cpus", "gpus", "mem", "disk")
        self._free: dict[str, Amounts] = {}
        self._shut = {str(machine.id) for machine in node.stage.machines.values() if not machine.takes_tasks}
        for machine in node.stage.machines.values():
            self._free[str(machine.id)] = {name: machine.free.milli(name) for name in self._names}
        self._of_app: dict[str, list[tuple[str, Amounts, str]]] = {}
        self._back: Amounts = dict.fromkeys(self._names, 0)
        """What the role's tasks that may end would give back of its quota."""
        for instance in state.instances.values():
            spec = state.spec_of(instance)
            if instance.task is None or spec is None:
                continue
            amounts = {name: own + beside for name, own, beside in spec.scalars}
            app = state.app(spec.id)
            yields = any(one is not None and one.document.get("preemptible") for one in (spec, app))
            held = (str(instance.task.agent_id), amounts, str(instance.role).partition("/")[0])
            if yields or spec.id == node.app_id:
                self._give(self._free, *held[:2])
                self._return(self._back, held)
            else:
                self._of_app.setdefault(spec.id, []).append(held)

    def could_start(self, step: Step) -> bool:
        """Return whether one unit might have room after a step; False is certain."""
        node = self._node
        asked, size = dict(node.asked), node.spec.gang_size
        alone = size > 1 and bool(node.spec.document["gang"]["onePerHost"])
        free = self._free
        more = 0
        shut = self._shut
        back = dict(self._back)
        match step.kind:
            case "lower":
                asked[step.target] = step.amounts[step.target]
            case "size":
                size = step.value or size
            case "together":
                alone = False
            case "reactivate":
                shut = shut - {step.target}
            case "scale" | "preemptible":
                free = self._with(self._of_app.get(step.target, ()), back)
            case "end":
                free = {
                    place: {name: amount + step.amounts.get(name, 0) for name, amount in amounts.items()}
                    for place, amounts in free.items()
                }
                back = {name: amount + step.amounts.get(name, 0) for name, amount in back.items()}
            case "add":
                more = size
        if step.kind != "quota" and not self._allowed(asked, size, back):
            return False
        fits = more
        for place, amounts in free.items():
            if place not in shut:
                count = min((amounts[name] // amount for name, amount in asked.items()), default=size)
                fits += min(count, 1) if alone else count
                if fits >= size:
                    return True
        return fits >= size

    def _allowed(self, asked: Mapping[str, int], size: int, back: Mapping[str, int]) -> bool:
        left = self._node.stage.headroom.get(self._node.role, {})
        return all(left[name] + back[name] >= amount * size for name, amount in asked.items() if name in left)

    def _with(self, held: tuple[()] | list[tuple[str, Amounts, str]], back: Amounts) -> dict[str, Amounts]:
        free = {place: dict(amounts) for place, amounts in self._free.items()}
        for one in held:
            self._give(free, *one[:2])
            self._return(back, one)
        return free

    def _give(self, free: dict[str, Amounts], place: str, amounts: Mapping[str, int]) -> None:
        if place in free:
            for name in self._names:
                free[place][name] += amounts.get(name, 0)

    def _return(self, back: Amounts, held: tuple[str, Amounts, str]) -> None:
        if held[2] == self._node.role:
            for name in self._names:
                back[name] += held[1].get(name, 0)
