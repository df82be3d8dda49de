"""What a change is looked for in: a state, machines and quotas, and the same after some steps were done. Pure.

Steps are `why.change.Step`s. Each is done as whoever reads of it would: by the event that the command in its text
sends, one after another, with what follows in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine, of_quota
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.simulation.replica import Replica
from mesos_gpu.marathon.state.events import Event, KillTasks, Moment, PutApps, StopRun
from mesos_gpu.marathon.state.given_back import SETTLE_S
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.why.change import Step
from mesos_gpu.marathon.why.links import Given
from mesos_gpu.marathon.why.steps import new_machine, own_fields
from mesos_gpu.mesos.ids import AgentId, Role

PATIENCE_S = 2 * SETTLE_S
"""For so long it is looked whether anything comes of a step: offers settle, somebody gives way, they settle again."""
WITHIN_S = 60.0
"""What starts later does not start because of a step: somebody gave way, and gives way again."""


class Scenario(Struct, frozen=True):
    """What there is around an app that waits. `limits` and `headroom` are of quotas, in thousandths, by role."""

    state: State
    machines: Sequence[Machine]
    settings: Settings
    moment: Moment
    headroom: Mapping[Role, Mapping[str, int]] = field(default_factory=dict)
    limits: Mapping[Role, Mapping[str, int]] = field(default_factory=dict)


class Node:
    """A scenario after some steps. `app_id` is the app that is to start."""

    def __init__(
        self, scenario: Scenario, app_id: str, replica: Replica, steps: tuple[Step, ...], before: Node | None
    ) -> None:
        self.scenario, self.app_id, self.replica, self.steps = scenario, app_id, replica, steps
        self.before = before

    @classmethod
    def first(cls, scenario: Scenario, app_id: str) -> Node:
        """Return the scenario as it is, when all that is under way has come to its end."""
        replica = Replica(scenario.state, scenario.machines, scenario.settings, scenario.moment, scenario.headroom)
        replica.settle_what_is_under_way()
        node = cls(scenario, app_id, replica, (), None)
        node._runs_before = node.units
        if not node.cut_short():
            replica.play(until=lambda _: node.starts, horizon_s=2 * WITHIN_S)
        node._in_doubt = bool(node.cut_short())
        return node

    _runs_before: int = 0
    _in_doubt: bool = False
    """Whether offers may have been cut short by a quota after others had given way, so that it might not start."""

    def after(self, step: Step) -> Node | None:
        """Return it after one more step; None for a step that is refused.

        What starts has to, whichever offers come first.
        """
        node = self._played(step, self.replica.copy())
        if node is not None and node.starts:
            node._in_doubt = node._turned is None or not node._turned.starts
        return node

    @cached_property
    def _turned(self) -> Node | None:
        """Return the same after the same steps, where other offers come first."""
        if self.before is None:
            return self
        before = self.before._turned
        return None if before is None else before._played(self.steps[-1], before.replica.turned())

    def _played(self, step: Step, replica: Replica) -> Node | None:
        node = Node(self.scenario, self.app_id, replica, (*self.steps, step), self)
        node._runs_before = self._runs_before
        try:
            _do(node, step)
        except MesosGpuError:
            return None
        within_s = replica.now_s - self.scenario.moment.now_s + WITHIN_S
        if not node.cut_short():
            replica.play(until=lambda _: node.starts, patience_s=PATIENCE_S, horizon_s=within_s)
        node._in_doubt = bool(node.cut_short())
        return node

    @property
    def starts(self) -> bool:
        """Return whether more of the app runs than did at first: one instance more, or one gang."""
        return self.units > self._runs_before and not self._in_doubt

    def cut_short(self) -> dict[str, int]:
        """Return what the app's role would have to have left more of, so that no offer is cut short; in thousandths.

        What is left of a quota goes to whichever machines are offered first, a part to each, and those may not be the
        right ones: so an app starts for certain only where there is as much left as is free.
        """
        spec = self.replica.state.app(self.app_id)
        left = self.replica.headroom.get(self.role, {})
        if spec is None or not left:
            return {}
        machines = [machine for machine in self.replica.machines.values() if machine.takes_tasks]
        free = {
            name: sum(machine.free.milli(name) for machine in machines)
            for name, own, more in spec.scalars
            if own + more
        }
        return {name: amount - left[name] for name, amount in free.items() if name in left and amount > left[name]}

    @cached_property
    def spec(self) -> RunSpec:
        """Return the app as it is after the steps."""
        found = self.replica.state.app(self.app_id)
        assert found is not None
        return found

    @property
    def asked(self) -> Mapping[str, int]:
        """Return what one instance asks for, its executor's part with it; in thousandths."""
        return self.spec.asked

    @property
    def units(self) -> int:
        """Return how many instances of the app run, or how many gangs."""
        state = self.replica.state
        spec = state.app(self.app_id)
        running = [i for i in state.instances_of(self.app_id) if i.phase is Phase.RUNNING and i.task is not None]
        if spec is None or "gang" not in spec.document:
            return len(running)
        return len({i.task.gang.id for i in running if i.task is not None and i.task.gang is not None})

    @property
    def where(self) -> list[str]:
        """Return what the machines are called on which it has started, in their order."""
        ids = {start.agent_id for start in self.replica.starts if start.app == self.app_id}
        return [machine.called for machine in self.scenario.machines if machine.id in ids]

    @property
    def given(self) -> list[Given]:
        """Return the GPUs that its instances got which have started, where it is known; in the order of machines."""
        starts = [start for start in self.replica.starts if start.app == self.app_id and start.cards]
        return [
            Given(machine.called, start.cards, start.linked)
            for machine in self.scenario.machines
            for start in starts
            if start.agent_id == machine.id
        ]

    @property
    def full_role(self) -> Role:
        """Return the role in which offers come to the app."""
        return Role(str(self.spec.document["role"]))

    @property
    def role(self) -> Role:
        """Return the role that quotas of the app are of."""
        return of_quota(self.full_role)


def _do(node: Node, step: Step) -> None:
    """Do a step. Raises what the decision about it raises."""
    replica = node.replica
    state = replica.state
    number = len(node.steps)
    fields = own_fields(state.app(node.app_id) or node.spec, step)
    if fields is not None:
        replica.tell(PutApps([{"id": node.app_id, **fields}], f"simulated {number}", force=True, create=False))
        return
    match step.kind:
        case "quota":
            left = replica.headroom.setdefault(Role(step.target), {})
            limits = node.scenario.limits.get(Role(step.target), {})
            for earlier in node.steps[:-1]:
                limits = {**limits, **earlier.amounts} if earlier.kind == "quota" else limits
            for name, limit in step.amounts.items():
                left[name] = left.get(name, 0) + limit - limits.get(name, 0)
        case "preemptible":
            replica.tell(PutApps([{"id": step.target, "preemptible": True}], f"simulated {number}", True, create=False))
        case "scale":
            replica.tell(PutApps([{"id": step.target, "instances": step.value}], f"simulated {number}", True, False))
        case "end":
            _end(node, step, number)
        case "reactivate":
            machine = replica.machines[AgentId(step.target)]
            replica.machines[machine.id] = replace(machine, takes_tasks=True)
        case "add":
            for at in range(step.value or 1):
                made = new_machine(step, number, at)
                replica.machines[made.id] = made


def _end(node: Node, step: Step, number: int) -> None:
    replica = node.replica
    instance = replica.state.instances.get(instance_of(step.target) or step.target)
    if instance is not None:
        run = run_of(instance.app_id)
        event: Event = KillTasks([step.target], f"simulated {number}", scale=True, force=True)
        replica.tell(event if run is None else StopRun(*run))
