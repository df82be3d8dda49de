"""The deciding cores of a master and a Marathon, and agents that run what they are told for as long as it takes.

What one decides goes straight to the other. Time is a number; nothing sleeps, and the same history gives the same
answers.
"""

from __future__ import annotations

import base64
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID, uuid5

from msgspec import Struct
from msgspec.structs import replace as replace_struct

from mesos_gpu.agent.launching.shares import refusal
from mesos_gpu.marathon.decisions import orchestrator
from mesos_gpu.marathon.decisions.launching import next_launch_s
from mesos_gpu.marathon.definitions.app import AppRules
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.placement_demand import MODEL
from mesos_gpu.marathon.state import actions as marathon_actions
from mesos_gpu.marathon.state import events as marathon_events
from mesos_gpu.marathon.state.settings import Settings as MarathonSettings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.master.allocation.eligibility import Rules
from mesos_gpu.master.decisions.handle import handle
from mesos_gpu.master.events import agents as news
from mesos_gpu.master.events import schedulers as calls
from mesos_gpu.master.events.event import Event as MasterEvent
from mesos_gpu.master.events.timers import Allocate, Tick
from mesos_gpu.master.model.report import Report
from mesos_gpu.master.state import actions as master_actions
from mesos_gpu.master.state.settings import Settings as MasterSettings
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.views import master_info
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role, TaskId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, MOST_SLICES, SharedCard, cards_text, offered
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.replay.aim import Aim

_MASTER_ID = "00000000-0000-0000-0000-000000000000"
_UUIDS = UUID(int=0)
_CAPABILITIES = ("MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT")
_FRAMEWORK = ("PARTITION_AWARE", "MULTI_ROLE", "TASK_KILLING_STATE", "GPU_RESOURCES")
_STREAM = "stream"
BEGIN_S = 1_700_000_000.0
"""Unix time at which every replay begins; dates appear nowhere in what it says."""
_LEAST_CPUS_MILLI, _LEAST_MEM_MIB = 10, 32
"""What a job has to ask for (schemas/job.json)."""
_RUN = "R"
"""Ids of runs begin so: by a capital letter Marathon tells them from names of apps."""
_FOR_EVER_S = 1e9
_REFUSED_S = 120.0
"""So long Marathon refuses what it cannot use (--decline_offer_duration)."""
_ONE_AFTER_ANOTHER_S = 0.001
"""Of those that have waited equally long Marathon does not know who came first."""
_TICK_S = 30.0
"""A master looks for refusals that have run out each second; while something waits, here so often."""


class Running(Struct, frozen=True):
    """A task that runs: which run it is of, on which machine, since when."""

    run_id: str
    machine: str
    since_s: float


class ReplayedCluster:
    """Jobs come in by `start`, and time advances to `until`. Times are seconds since the beginning.

    `begins` is told of each run that starts, `ran` of each that has ended, with the Running that it was and the time.
    Without `all_offers` only the machine is offered that a run would choose of all (aim.py), but for times in which
    something waits in order, a gang or something with a priority: then all machines are.
    With `card_gib` every card is shared, has so much memory, and is asked for by `gpuShare` alone: whole ones, too.
    """

    def __init__(
        self,
        machines: Mapping[str, Machine],
        policy: str,
        ran: Callable[[Running, float], None] = lambda running, now_s: None,
        begins: Callable[[str], None] = lambda run_id: None,
        *,
        offer_window_s: float = 0.2,
        all_offers: bool = True,
        card_gib: int = 0,
    ) -> None:
        if card_gib and not all_offers:
            raise ValueError("of parts of cards the choice is Marathon's, over all offers")
        self._card_gib = card_gib
        rules = Rules(excluded_names=frozenset({"gpus"}))
        info = master_info(_MASTER_ID, "master", "1.12.0", Pid("master", "127.0.0.1", 5050))
        self.now_s = 0.0
        self._master = MasterState(info, MasterSettings(rules, framework_metrics=False), self._moment)
        self._marathon = State()
        self._settings = MarathonSettings(
            counts_usage=False,
            rules=AppRules(mesos_role=Role("*"), features=frozenset({"gpu_resources"})),
            gpu_behaviour=GpuBehaviour.UNRESTRICTED,
            placement_policy=policy,
            offer_window_s=offer_window_s if all_offers else 0.0,
            suppress_offers=all_offers,
            decline_offer_s=_REFUSED_S if all_offers else _FOR_EVER_S,
            launch_tokens=1_000_000,
            max_instances_per_offer=1000,
            min_revive_interval_s=1.0,
            offer_statistics=False,
        )
        self._ran, self._begins = ran, begins
        self._aim = None if all_offers else Aim(machines, policy)
        self._in_order_window_s = offer_window_s
        self._was_in_order = False
        self._numbers, self._order = count(1), count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._letters: deque[Callable[[], None]] = deque()
        self._machines: dict[AgentId, str] = {}
        self._shared: dict[AgentId, dict[int, SharedCard]] = {}
        self._agents: dict[str, AgentId] = {}
        self._jobs: dict[tuple[Demand, int, int], str] = {}
        self._durations: dict[str, float] = {}
        self.running: dict[TaskId, Running] = {}
        self._wakes_at_s: float | None = None
        self._ticks_at_s = 0.0
        for port, (name, machine) in enumerate(machines.items(), 1):
            self._add(name, machine, port)
        body = {"framework_info": _framework_info()}
        self._tell_master(calls.Subscribe(_STREAM, body))

    @property
    def waiting(self) -> int:
        """Return how many runs wait for a place."""
        return len(self._marathon.waiting)

    @property
    def _moment(self) -> Moment:
        return Moment(self.now_s, BEGIN_S + self.now_s)

    def start(self, run_id: str, demand: Demand, duration_s: float, *, nodes: int = 1, priority: int = 0) -> None:
        """Ask for a run now. It ends by itself so long after it has started; never when that is infinite.

        On several `nodes` it is a gang, and each of its members asks for so much.
        """
        if self._aim is not None:
            best = self._aim.asked(run_id, _least(demand), nodes)
            if best is not None and nodes == 1 and not priority and not self._in_order:
                # As if what Marathon said of this machine had run out now: it alone is offered.
                self._master.filters.forget_agent(self._agents[best])
        self._ask(run_id, demand, duration_s, nodes, priority)
        self._settle()

    def start_together(self, asked: Iterable[tuple[str, Demand]]) -> None:
        """Ask for runs that never end, one after another, before a machine is offered for any of them."""
        for run_id, demand in asked:
            self.until(self.now_s + _ONE_AFTER_ANOTHER_S)
            self._ask(run_id, demand, float("inf"), 1, 0)
        self._settle()

    def _ask(self, run_id: str, demand: Demand, duration_s: float, nodes: int, priority: int) -> None:
        kind = demand, nodes, priority
        job_id = self._jobs.get(kind)
        if job_id is None:
            job_id = self._jobs[kind] = f"size-{len(self._jobs)}"
            self._tell_marathon(marathon_events.PutJob(_job(job_id, demand, nodes, priority, self._card_gib)))
        self._durations[run_id] = duration_s
        self._tell_marathon(marathon_events.StartRun(job_id, _RUN + run_id))

    def give_up(self, run_id: str, demand: Demand) -> None:
        """Take back a run of one machine and no priority that waits."""
        if self._aim is not None:
            self._aim.over(run_id)
        self._tell_marathon(marathon_events.StopRun(self._jobs[demand, 1, 0], _RUN + run_id))
        self._settle()

    def until(self, at_s: float) -> None:
        """Let time pass, with all that happens in it."""
        while self._due and self._due[0][0] <= at_s:
            self.now_s, _, act = heapq.heappop(self._due)
            act()
            while self._due and self._due[0][0] == self.now_s:
                heapq.heappop(self._due)[2]()
            self._settle()
        self.now_s = max(self.now_s, at_s)

    def next_s(self) -> float | None:
        """Return when something will happen by itself; None when nothing will."""
        return self._due[0][0] if self._due else None

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), act))

    @property
    def _in_order(self) -> bool:
        """Return whether something waits for a gang or has a priority, so that the order of all that waits counts."""
        return self._marathon.ordered

    @property
    def _settings_now(self) -> MarathonSettings:
        """Return what Marathon decides by: where all machines are offered, what it refuses comes again."""
        if self._aim is None or not self._in_order:
            return self._settings
        window_s = self._in_order_window_s
        return replace_struct(self._settings, offer_window_s=window_s, decline_offer_s=_REFUSED_S)

    def _settle(self) -> None:
        """Have the master offer what is free, and set the clock for what will matter next."""
        if self._was_in_order and not self._in_order and self._aim is not None:
            # What was kept for those before them may be others' now, and is not offered by itself.
            for agent_id in self._machines:
                self._master.filters.forget_agent(agent_id)
        self._was_in_order = self._in_order
        self._tell_master(Allocate())
        moment = marathon_events.Moment(BEGIN_S + self.now_s, lambda: "")
        wake_s = next_launch_s(self._marathon, self._settings_now, moment)
        if wake_s is not None and wake_s - BEGIN_S != self._wakes_at_s:
            self._wakes_at_s = max(self.now_s, wake_s - BEGIN_S)
            self._at(self._wakes_at_s, lambda: self._tell_marathon(marathon_events.Tick()))
        if self._aim is not None and not self._in_order:
            return  # what was refused is refused for good
        if self.waiting and self._ticks_at_s <= self.now_s and (self.running or self._due):
            self._ticks_at_s = self.now_s + _TICK_S
            self._at(self._ticks_at_s, lambda: self._tell_master(Tick()))

    def _add(self, name: str, machine: Machine, port: int) -> None:
        cpus, gpus = machine.cpus_milli / 1000, len(machine.cards)
        text = f"cpus:{cpus:.3f};mem:{machine.mem_mib};disk:1000000;ports:[1025-65535]"
        shared = [SharedCard(at, f"GPU-{at}", self._card_gib * 1024) for at in range(gpus if self._card_gib else 0)]
        text += f";{offered(shared)}" if shared else f";gpus:{gpus}"
        attributes: list[dict[str, Any]] = (
            [{"name": MODEL, "type": "TEXT", "text": {"value": machine.model}}] if machine.model else []
        )
        if shared:
            attributes.append({"name": CARDS_ATTRIBUTE, "type": "TEXT", "text": {"value": cards_text(shared)}})
        report = Report(
            pid=f"slave(1)@127.0.0.1:{port}",
            info={
                "hostname": name,
                "port": port,
                "resources": Resources.parse(text).to_json(),
                "attributes": attributes,
            },
            version="1.12.0",
            capabilities=_CAPABILITIES,
            checkpoint=True,
        )
        known = set(self._master.agents)
        self._tell_master(news.Register(report))
        (agent_id,) = set(self._master.agents) - known
        self._machines[agent_id], self._agents[name] = name, agent_id
        self._shared[agent_id] = {card.index: card for card in shared}

    def _tell_master(self, event: MasterEvent) -> None:
        self._post(lambda: self._follow(handle(self._master, event, self._moment)))

    def _post(self, act: Callable[[], None]) -> None:
        """Do this after all that was posted before, as letters are read in the order in which they come."""
        self._letters.append(act)
        if len(self._letters) == 1:
            while self._letters:
                self._letters[0]()
                self._letters.popleft()

    def _follow(self, actions: Iterable[master_actions.Action]) -> None:
        for action in actions:
            match action:
                case master_actions.Store(then=then):
                    self._tell_master(then)
                case master_actions.SendEvent(event=event):
                    self._hear(event)
                case master_actions.RunTask(agent_id=agent_id, task=task):
                    self._run(agent_id, task["task_id"]["value"], task)
                case master_actions.KillTask(agent_id=agent_id, task_id=task_id):
                    self._end(agent_id, task_id, "TASK_KILLED")
                case _:
                    pass  # what is told to agents alone: pings, acknowledgements

    def _hear(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "SUBSCRIBED":
                framework_id = FrameworkId(event["subscribed"]["framework_id"]["value"])
                self._tell_marathon(marathon_events.Subscribed(framework_id, "master:5050", again=False))
            case "OFFERS":
                self._tell_marathon(marathon_events.Offered(event["offers"]["offers"]))
            case "RESCIND":
                self._tell_marathon(marathon_events.Rescinded(event["rescind"]["offer_id"]["value"]))
            case "UPDATE":
                self._tell_marathon(marathon_events.Status(event["update"]["status"]))
            case _:
                pass  # heartbeats

    def _tell_marathon(self, event: marathon_events.Event) -> None:
        self._post(lambda: self._decide(event))

    def _decide(self, event: marathon_events.Event) -> None:
        seed = str(UUID(int=next(self._numbers)))
        moment = marathon_events.Moment(BEGIN_S + self.now_s, ids_from(seed))
        self._marathon, actions = orchestrator.handle(self._marathon, event, moment, self._settings_now)
        for action in actions:
            call = self._call(action)
            if call is not None:
                self._tell_master(call)

    def _call(self, action: marathon_actions.Action) -> calls.Call | None:
        framework_id = self._marathon.framework_id or FrameworkId("")
        match action:
            case marathon_actions.Launch(offer_id=offer_id, refuse_s=refuse_s):
                launch = {"type": "LAUNCH", "launch": {"task_infos": list(action.task_infos)}}
                body = {"offer_ids": [{"value": offer_id}], "filters": {"refuse_seconds": refuse_s}}
                return calls.Accept(framework_id, {**body, "operations": [launch]})
            case marathon_actions.Decline(offer_ids=offer_ids, refuse_s=refuse_s):
                ids = [{"value": offer_id} for offer_id in offer_ids]
                return calls.Decline(framework_id, {"offer_ids": ids, "filters": {"refuse_seconds": refuse_s}})
            case marathon_actions.Revive():
                return calls.Revive(framework_id, {}) if self._aim is None or self._in_order else None
            case marathon_actions.Suppress():
                return calls.Suppress(framework_id, {})
            case marathon_actions.Kill(task_id=task_id):
                return calls.Kill(framework_id, {"task_id": {"value": task_id}})
            case marathon_actions.Acknowledge(status=status):
                known = {key: status[key] for key in ("agent_id", "task_id", "uuid")}
                return calls.Acknowledge(framework_id, known)
            case _:
                return None

    def _run(self, agent_id: AgentId, task_id: TaskId, task: Mapping[str, Any]) -> None:
        if (words := refusal(self._shared[agent_id], task)) is not None:
            raise RuntimeError(f"an agent would refuse what Marathon took for {task_id}: {words}")
        run_id = str(task["name"]).split(".", 1)[0].removeprefix(_RUN)
        self.running[task_id] = Running(run_id, self._machines[agent_id], self.now_s)
        self._begins(run_id)
        if self._aim is not None:
            self._aim.starts(run_id, self._machines[agent_id])
        self._at(self.now_s, lambda: self._say(agent_id, task_id, "TASK_RUNNING"))
        duration_s = self._durations[run_id]
        if duration_s != float("inf"):
            self._at(self.now_s + duration_s, lambda: self._end(agent_id, task_id, "TASK_FINISHED"))

    def _end(self, agent_id: AgentId, task_id: TaskId, state: str) -> None:
        running = self.running.pop(task_id, None)
        if running is not None:
            if self._aim is not None:
                self._aim.over(running.run_id)
            self._ran(running, self.now_s)
            self._say(agent_id, task_id, state)

    def _say(self, agent_id: AgentId, task_id: TaskId, state: str) -> None:
        uuid = base64.b64encode(uuid5(_UUIDS, f"{task_id}{state}").bytes).decode("ascii")
        status: Any = {
            "task_id": {"value": task_id},
            "state": state,
            "source": "SOURCE_EXECUTOR",
            "agent_id": {"value": agent_id},
            "executor_id": {"value": task_id},
            "timestamp": BEGIN_S + self.now_s,
            "uuid": uuid,
        }
        framework_id = self._marathon.framework_id or FrameworkId("")
        self._tell_master(news.StatusUpdate(agent_id, framework_id, status, state))


def _framework_info() -> dict[str, Any]:
    named = [{"type": name} for name in _FRAMEWORK]
    return {"user": "root", "name": "marathon", "roles": ["*"], "checkpoint": True, "capabilities": named}


def _least(demand: Demand) -> Demand:
    """Return what is asked for as a job may ask for it."""
    cpus, mem = max(demand.cpus_milli, _LEAST_CPUS_MILLI), max(demand.mem_mib, _LEAST_MEM_MIB)
    return replace(demand, cpus_milli=cpus, mem_mib=mem)


def _share(demand: Demand, card_gib: int) -> dict[str, Any]:
    """Return what is asked for of cards of so much memory: what is not a whole GiB counts as one, and the weight is the
    part of a card's slices, rounded down, so that slices do not run out before memory does.
    """
    if demand.gpus:
        return {"memGiB": card_gib, "weight": MOST_SLICES, "cards": demand.gpus}
    gib = -(-demand.share_milli * card_gib // WHOLE)
    return {"memGiB": gib, "weight": max(1, demand.share_milli * MOST_SLICES // WHOLE)}


def _job(job_id: str, demand: Demand, nodes: int, priority: int, card_gib: int) -> dict[str, Any]:
    least = _least(demand)
    run: dict[str, Any] = {
        "cmd": "true",
        "cpus": least.cpus_milli / 1000,
        "mem": least.mem_mib,
        "disk": 0,
        "gpus": 0 if card_gib else demand.gpus,
    }
    if card_gib and demand.gpu_milli:
        run["gpuShare"] = _share(demand, card_gib)
    if demand.models:
        models = "|".join(sorted(demand.models))
        run["placement"] = {"constraints": [{"attribute": MODEL, "operator": "LIKE", "value": models}]}
    if nodes > 1:
        run["gang"] = {"size": nodes}
    if priority:
        run["priority"] = priority
    return {"id": job_id, "run": run}
