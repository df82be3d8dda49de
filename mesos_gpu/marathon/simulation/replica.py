"""A copy of a state and of what agents have, on which events are played, and time passes. Pure.

`orchestrator.handle` decides, as ever; offers are made of what agents have free, tasks that are launched run and are
healthy, and those that are to end do. Nothing is sent, and nothing is kept.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.decisions import lifecycle, suspending
from mesos_gpu.marathon.decisions.launching import next_launch_s
from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching import share_scheduling
from mesos_gpu.marathon.matching.checks import health_probes, readiness_probe
from mesos_gpu.marathon.matching.gpu_shares import parts_of
from mesos_gpu.marathon.matching.machines import Machine, given_back, of_quota, operated, readable
from mesos_gpu.marathon.matching.nvlink import given_cards, sets_of, share_links
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Action, Decline, Kill, Launch, Tell
from mesos_gpu.marathon.state.events import Event, HealthChecked, Moment, Offered, ReadinessChecked, Status, Tick
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import AgentId, OfferId, Role, TaskId
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_links import Sets, cards_label
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, NOT_SUSPENDED, RESUMED, SUSPEND, SUSPENDED, WORDS
from mesos_gpu.queueing.parts import Room

HORIZON_S = 3600.0
"""For so long time passes while something waits, unless told otherwise: a backoff lasts no longer."""
_QUIET_S = 20.0
"""What waits in order is left alone when it has been looked at for so long in vain, and thrice the hold of offers."""
_ROUNDS = 5000
"""Times that offers are made, at most."""
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Multiples of it lie far apart modulo 2 to the 128th: ids that nothing has."""
_NO_OFFER = AgentId(""), Role("*"), Resources()
_SCALARS = ("cpus", "gpus", "mem", "disk")
_GPUS = ("gpus", GPU_MEM, GPU_SLICES)

Lasts = Callable[[RunSpec, float], float | None]
"""For how long a task of a RunSpec that has run for so long (s) runs on; None: as long as it may."""


class Start(Struct, frozen=True):
    """A task that would start. `after_s`: how much later, where backoffs or the like have to pass first."""

    app: str
    instance: str
    agent_id: AgentId
    host: str
    amounts: Mapping[str, float]
    after_s: float = 0.0
    cards: tuple[int, ...] = ()
    """Which GPUs of the machine it would get, by index, where its agent tells which share NVLink."""
    linked: bool | None = None
    """Whether these share NVLink; None for fewer than two, and where it is not known."""


class End(Struct, frozen=True):
    """A task that would end. `why`: replaced, removed, fewer (it is one too many), or gives way (to another app)."""

    app: str
    instance: str
    host: str
    why: str
    gpus: float = 0.0


class Replica:
    """A state and agents, as time passes."""

    def __init__(
        self,
        state: State,
        machines: Sequence[Machine],
        settings: Settings,
        moment: Moment,
        headroom: Mapping[Role, Mapping[str, int]],
        lasts: Lasts = lambda spec, age_s: None,
    ) -> None:
        self.state, self._first, self._settings = state, state, replace(settings, counts_usage=False)
        self.machines = {machine.id: machine for machine in machines}
        self.starts: list[Start] = []
        self.ends: list[End] = []
        self._ending: set[TaskId] = set()
        """The first task of each of them. An instance that gives way may start again, and give way again."""
        self._begin_s = self._now_s = moment.now_s
        self._made = count(1)
        self._headroom = {role: dict(left) for role, left in headroom.items()}
        self._holds: dict[TaskId, tuple[AgentId, Resources, Role]] = {}
        self._offers: dict[OfferId, tuple[AgentId, Role, Resources]] = {}
        """What is out: also what the state holds, until it gives that back."""
        self.suspends: list[End] = []
        tasks = (instance.task for instance in state.instances.values())
        self._away = {task.id for task in tasks if task is not None and task.away}
        """Those whose GPUs are put away."""
        self._cards: dict[TaskId, tuple[int, ...]] = {}
        self._refused: dict[AgentId, int] = {}
        """In the order in which their offers were declined last."""
        self._numbers = count(1)
        self._letters: deque[Event] = deque()
        self._lasts = lasts
        self._due: list[tuple[float, TaskId]] = []
        self._turned = False
        for offer in (*readable(state.held), *(offer for offer, _ in state.queued)):
            self._offers[offer.id] = offer.agent_id, offer.role, offer.resources

    def settle_what_is_under_way(self) -> None:
        """Let what starts now run, and what ends now end: that would happen in any case."""
        for instance in list(self.state.instances.values()):
            task = instance.task
            if task is None:
                continue
            if any(task_id in self.state.kills for task_id in task.living_ids):
                self._letters.extend(self._ended(instance, task_id) for task_id in task.living_ids)
            elif instance.phase in (Phase.PROVISIONED, Phase.STAGING, Phase.STARTING):
                self._letters.extend(self._runs(task_id, task.agent_id) for task_id in task.living_ids)
            self._will_end(instance, self._now_s - (task.started_at_s or task.staged_at_s))
        self._read()

    def tell(self, event: Event) -> list[Action]:
        """Have an event decided about, and let follow what follows at once. Raises what the decision raises."""
        actions = self._decide(event)
        self._read()
        return actions

    def copy(self) -> Replica:
        """Return another one that is as far as this one, and goes its own way from here."""
        other = copy(self)
        other.machines, other._holds, other._offers = dict(self.machines), dict(self._holds), dict(self._offers)
        other._refused, other._cards, other._ending = dict(self._refused), dict(self._cards), set(self._ending)
        other._away, other.suspends = set(self._away), list(self.suspends)
        other.starts, other.ends, other._due = list(self.starts), list(self.ends), list(self._due)
        other._headroom = {role: dict(left) for role, left in self._headroom.items()}
        other._numbers, other._made = copy(self._numbers), copy(self._made)
        other._letters = deque(self._letters)
        return other

    def turned(self) -> Replica:
        """Return a copy to which other offers come first: what a master does is not known.

        They come to the roles in the other order, and nothing is held that was held before all others came.
        """
        other = self.copy()
        other._turned, other._offers = True, {}
        nothing = {"held": (), "held_until_s": None, "gathering": False, "queued": ()}
        other.state = State.after(self.state, nothing)
        return other

    @property
    def now_s(self) -> float:
        """Return what the clock says."""
        return self._now_s

    @property
    def headroom(self) -> dict[Role, dict[str, int]]:
        """Return what quotas leave, in thousandths; what is changed in it holds from then on."""
        return self._headroom

    def play(
        self,
        *,
        horizon_s: float = HORIZON_S,
        until: Callable[[State], bool] = lambda state: False,
        patience_s: float | None = None,
    ) -> None:
        """Offer what is free, again and again, until nothing more happens, time is over, or `until` says so.

        `patience_s`: for how long what waits in order is looked at in vain, _QUIET_S and three holds of offers usually.
        """
        patience_s = _QUIET_S + 3 * self._settings.gang_offer_hold_s if patience_s is None else patience_s
        quiet_from_s, done = self._now_s, -1
        for _ in range(_ROUNDS):
            so_far = len(self.starts) + len(self.ends) + len(self.suspends)
            if done != so_far:
                quiet_from_s, done = self._now_s, so_far
            if until(self.state) or (not self.state.waiting and not self.state.releasing):
                return
            if self._offer():
                continue
            # What waits in order is looked at every few seconds: when nothing came of it for a while nothing will.
            looks = self._now_s - quiet_from_s < patience_s
            next_s = self._next_s(looks=looks)
            times = [at_s for at_s in (next_s, self._due[0][0] if self._due else None) if at_s is not None]
            if not times or min(times) > self._begin_s + horizon_s:
                return
            self._now_s = max(self._now_s, min(times))
            while self._due and self._due[0][0] <= self._now_s:
                quiet_from_s = self._now_s
                self._ends_by_itself(heapq.heappop(self._due)[1])
            self.tell(Tick())

    def _will_end(self, instance: Instance, age_s: float) -> None:
        """Note when a task will end by itself, if that is known."""
        spec = self.state.spec_of(instance)
        left_s = None if spec is None else self._lasts(spec, age_s)
        if left_s is not None and instance.task is not None:
            for task_id in instance.task.living_ids:
                heapq.heappush(self._due, (self._now_s + left_s, task_id))

    def _ends_by_itself(self, task_id: TaskId) -> None:
        instance = self._instance_of(task_id)
        if instance is not None and instance.task is not None and instance.task.has(task_id):
            self._letters.append(self._ended(instance, task_id, "TASK_FINISHED"))
            self._read()

    def _next_s(self, *, looks: bool) -> float | None:
        """Return when time alone may let something start; None when it will not. `looks`: as in next_launch_s."""
        tokens = self.state.tokens
        at_s = next_launch_s(self.state, self._settings, Moment(self._now_s, self._new_id), looks=looks)
        times = [at_s] if at_s is not None else []
        if tokens.left == 0 and tokens.refresh_s > self._now_s:
            times.append(tokens.refresh_s)
        if looks and suspending.matters(self.state):
            times.append(self._now_s + suspending.LOOK_S)
        return min(times, default=None)

    def _offer(self) -> bool:
        """Offer what is free to the roles that wait, one after the other; return whether anything came of it."""
        roles = {spec.document["role"] for app in set(self.state.waiting.values()) if (spec := self.state.app(app))}
        used = False
        for role in sorted(roles, reverse=self._turned):
            out = {agent_id for agent_id, _, _ in self._offers.values()}
            left = dict(self._headroom.get(of_quota(role), {}))
            for _, other, offered in self._offers.values():
                if of_quota(other) == of_quota(role):
                    left = {name: most - offered.milli(name) for name, most in left.items()}
            documents = []
            machines = list(self.machines.values())
            if left:  # what a quota leaves goes elsewhere while an offer of it is refused
                machines.sort(key=lambda machine: self._refused.get(machine.id, 0))
            for machine in machines:
                offer_id = OfferId(f"simulated-{next(self._numbers)}")
                document = None if machine.id in out else machine.offer(offer_id, role, left)
                if document is not None:
                    documents.append(document)
                    offered = Resources.from_json(document["resources"])
                    self._offers[offer_id] = machine.id, role, offered
                    left = {name: most - offered.milli(name) for name, most in left.items()}
            if documents:
                used = any(isinstance(action, Launch) for action in self.tell(Offered(documents))) or used
        return used

    def _new_id(self) -> str:
        """Return an id that nothing has yet. What is chosen by it is the same whenever the same is played."""
        digits = f"{next(self._made) * _GOLDEN % 2**128:032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _decide(self, event: Event) -> list[Action]:
        before = self.state
        self.state, actions = handle(before, event, Moment(self._now_s, self._new_id), self._settings)
        for action in actions:
            match action:
                case Launch():
                    self._launched(action)
                case Decline(offer_ids=offer_ids):
                    for offer_id in offer_ids:
                        agent_id, _, _ = self._offers.pop(offer_id, _NO_OFFER)
                        self._refused[agent_id] = next(self._numbers)
                case Kill(task_id=task_id):
                    self._killed(before, task_id)
                case Tell():
                    self._told(action)
                case _:
                    pass
        return actions

    def _read(self) -> None:
        while self._letters:
            event = self._letters.popleft()
            self._decide(event)
            if isinstance(event, Status) and event.status["state"] == "TASK_RUNNING":
                self._letters.extend(self._checks(event.status["task_id"]["value"]))

    def _launched(self, launch: Launch) -> None:
        agent_id, role, _ = self._offers.pop(launch.offer_id, _NO_OFFER)
        if agent_id in self.machines:
            self.machines[agent_id] = operated(self.machines[agent_id], launch.operations)
        for info in launch.task_infos:
            self._starts(role, [info], Resources.from_json(info.get("executor", {}).get("resources", [])))
        for group in launch.groups:
            self._starts(role, group.task_infos, Resources.from_json(group.executor.get("resources", [])))

    def _starts(self, role: Role, infos: Sequence[TaskInfo], executor: Resources) -> None:
        whole, agent_id = Resources(), infos[0]["agent_id"]["value"]
        sets = sets_of(self.machines[agent_id].attributes) if agent_id in self.machines else ()
        for at, info in enumerate(infos):
            taken = Resources.from_json(info["resources"]).unallocated()
            taken += executor.unallocated() if at == 0 else Resources()
            whole += taken
            self._holds[info["task_id"]["value"]] = agent_id, taken, role
        instance = self._instance_of(infos[0]["task_id"]["value"])
        cards = self._given_cards(sets, agent_id, infos, whole.gpus) if sets and whole.gpus else ()
        if cards:  # those of a pod's containers are all of theirs
            ids = [TaskId(info["task_id"]["value"]) for info in infos]
            ids += [instance.task.id] if instance is not None and instance.task is not None else []
            self._cards.update(dict.fromkeys(ids, cards))
        self._take(agent_id, role, whole)
        self._letters.extend(self._runs(info["task_id"]["value"], agent_id) for info in infos)
        if instance is not None and instance.task is not None:
            amounts = {name: whole.milli(name) / 1000 for name in _SCALARS if whole.milli(name)}
            after_s = round(self._now_s - self._begin_s, 3)
            if after_s <= self._settings.offer_window_s:
                after_s = 0.0
            self.starts.append(
                Start(
                    instance.app_id,
                    instance.id,
                    agent_id,
                    instance.task.host,
                    amounts,
                    after_s,
                    cards,
                    share_links(sets, cards) if len(cards) > 1 else None,
                )
            )
            self._will_end(instance, 0.0)

    def _given_cards(self, sets: Sets, agent_id: AgentId, infos: Sequence[TaskInfo], count: int) -> tuple[int, ...]:
        """Return the cards that the tasks of an instance get together that starts here now; others have theirs."""
        starting = infos[0]["task_id"]["value"]
        running = (instance.task for instance in self.state.instances.values())
        there = [task for task in running if task is not None and task.agent_id == agent_id and not task.has(starting)]
        there = [replace(task, whole_cards=self._cards.get(task.id, task.whole_cards)) for task in there]
        return given_cards(sets, there, self.machines[agent_id].free.gpus, count)

    def _take(self, agent_id: AgentId, role: Role, taken: Resources) -> None:
        if agent_id in self.machines:
            self.machines[agent_id] = self.machines[agent_id].without(taken)
        left = self._headroom.get(of_quota(role))
        if left is not None:
            for name in left:
                left[name] -= taken.milli(name)

    def _killed(self, before: State, task_id: TaskId) -> None:
        instance = self._instance_of(task_id, before) or self._instance_of(task_id)
        if instance is None or instance.task is None or instance.phase is Phase.UNREACHABLE:
            return
        if instance.task.id not in self._ending:
            self._ending.add(instance.task.id)
            spec = before.spec_of(instance)
            self.ends.append(
                End(instance.app_id, instance.id, instance.task.host, self._why(instance), spec.gpus if spec else 0)
            )
        self._letters.append(self._ended(instance, task_id))

    def _told(self, tell: Tell) -> None:
        """Put the GPUs of a task away, or give it some again, as its agent is told; and say so."""
        instance, machine = self._instance_of(tell.task_id), self.machines.get(tell.agent_id)
        spec = None if instance is None else self.state.spec_of(instance)
        if instance is None or instance.task is None or machine is None or spec is None:
            return
        self.machines[machine.id], message = answered(machine, tell, instance, spec, away=tell.task_id in self._away)
        if message == RESUMED:
            self._away.discard(tell.task_id)
        elif message == SUSPENDED and tell.task_id not in self._away:
            self._away.add(tell.task_id)
            self.suspends.append(End(instance.app_id, instance.id, instance.task.host, "suspended", spec.gpus))
        status = self._runs(tell.task_id, tell.agent_id).status
        self._letters.append(Status({**status, "message": message}))

    def _why(self, instance: Instance) -> str:
        spec = self.state.app(instance.app_id)
        touched = {app for deployment in self.state.deployments.values() for app in deployment.apps}
        if spec is None:
            return "removed"
        if lifecycle.outdated(instance, spec):
            return "replaced"
        return "fewer" if instance.app_id in touched else "gives way"

    def _ended(self, instance: Instance, task_id: TaskId, state: str = "TASK_KILLED") -> Status:
        """Give back what a task has, and return the news of its end."""
        assert instance.task is not None
        known = self._holds.pop(task_id) if task_id in self._holds else self._held_before(instance, task_id)
        agent_id, held, role = known
        machine = self.machines.get(agent_id)
        if machine is not None:  # of a suspended task the GPUs are back already
            here = held - only_gpus(held) if instance.task.id in self._away else held
            self.machines[agent_id] = machine.with_back(here)
        self._away.discard(instance.task.id)
        left = self._headroom.get(of_quota(role))
        if left is not None:
            for name in left:
                left[name] += held.milli(name)
        return self._status(task_id, agent_id, state)

    def _held_before(self, instance: Instance, task_id: TaskId) -> tuple[AgentId, Resources, Role]:
        """Return what a task from before has: what its version asks for, from its role's part of the machine first."""
        assert instance.task is not None
        # By then its app may be gone.
        spec, machine = self._first.spec_of(instance), self.machines.get(instance.task.agent_id)
        role = instance.role
        held = Resources()
        # What a pod has comes back with the first of its tasks that ends.
        if spec is not None and machine is not None and task_id == instance.task.living_ids[0]:
            held += given_back(machine.used, spec.asked, role)
            held += parts_of(machine.used, parts_had(instance, instance.task, spec))
            ports = set(instance.task.ports)
            listed = ",".join(f"{port}-{port}" for port in sorted(ports))
            held += Resources.parse(f"ports:[{listed}]") if listed else Resources()
        return instance.task.agent_id, held, role

    def _instance_of(self, task_id: TaskId, state: State | None = None) -> Instance | None:
        instances = (self.state if state is None else state).instances
        instance = instances.get(instance_of(task_id) or task_id)
        return instance if instance is not None and instance.task is not None else None

    def _runs(self, task_id: TaskId, agent_id: AgentId) -> Status:
        return self._status(task_id, agent_id, "TASK_RUNNING")

    def _status(self, task_id: TaskId, agent_id: AgentId, state: str) -> Status:
        status: Any = {
            "task_id": {"value": task_id},
            "agent_id": {"value": agent_id},
            "state": state,
            "source": "SOURCE_EXECUTOR",
            "timestamp": self._now_s,
            "uuid": "",
            "healthy": True,
        }
        if self._cards.get(task_id):
            status["labels"] = {"labels": [cards_label(self._cards[task_id])]}
        return Status(status)

    def _checks(self, task_id: TaskId) -> Iterator[Event]:
        """Find a task healthy and ready, once it runs."""
        instance = self._instance_of(task_id)
        spec = self.state.spec_of(instance) if instance is not None else None
        if instance is None or spec is None or instance.task is None or spec.is_pod:
            return
        for probe in health_probes(spec, instance.task):
            if probe.index is not None:
                yield HealthChecked(task_id, probe.index, alive=True)
        ready = readiness_probe(spec, instance.task)
        if ready is not None:
            yield ReadinessChecked(task_id, ready.name, ready=True)


def answered(machine: Machine, tell: Tell, instance: Instance, spec: RunSpec, *, away: bool) -> tuple[Machine, str]:
    """Return an agent after it was told to put the GPUs of a task away, or to give it some, and what it says of that.

    `away`: whether they are put away already.
    """
    if away == (WORDS[tell.data] == SUSPEND):
        return machine, SUSPENDED if away else RESUMED
    assert instance.task is not None
    moved = gpus_among(machine.free if away else machine.used, instance, instance.task, spec)
    if moved is None:
        return machine, f"{NOT_RESUMED if away else NOT_SUSPENDED}others have what it had"
    return (machine.without(moved), RESUMED) if away else (machine.with_back(moved), SUSPENDED)


def only_gpus(resources: Resources) -> Resources:
    """Return what resources have of GPUs, whole and in parts."""
    return resources.filter(lambda resource: resource.name in _GPUS)


def parts_had(instance: Instance, task: Task, spec: RunSpec) -> Room:
    """Return GiB and slices of each shared card that the task of an app has, or has given back; pods are left out."""
    return {} if spec.is_pod or not task.cards else share_scheduling.sharer(instance, task, spec).parts


def gpus_among(resources: Resources, instance: Instance, task: Task, spec: RunSpec) -> Resources | None:
    """Return as many GPUs and parts of cards as a task is to have, out of resources; None where there are less.

    Which units of a card these are is all the same: others of it stand for those of a suspended task.
    """
    whole = resources.find("gpus", spec.gpus * 1000, (Role(instance.role), Role("*"))) if spec.gpus else Resources()
    parts = parts_had(instance, task, spec)
    units = parts_of(resources, parts)
    asked = sum(gib + slices for gib, slices in parts.values())
    return None if whole is None or _units(units) < asked else whole + units


def _units(resources: Resources) -> int:
    amounts = (resource.amount for resource in resources)
    return sum(last - first + 1 for ranges in amounts if isinstance(ranges, tuple) for first, last in ranges)
