"""Random histories of Marathons over a master with several agents: whole gangs only, and everything ends some time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import handle, next_tick_s
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Action, Decline, Kill, Launch, Revive
from mesos_gpu.marathon.state.events import Event, Moment, Offered, PutApps, PutJob, StartRun, Subscribed, Tick
from mesos_gpu.marathon.state.state import State, restored
from tests.support.histories import examples
from tests.support.marathon.builders import SETTINGS, T0, app, job, offer, status

GPUS = (2, 2, 1)
RULES = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED, min_revive_interval_s=1.0, offer_window_s=0.2)


@dataclass(frozen=True)
class Comes:
    """A job that comes at a time, and whose members each run for so long."""

    at_s: int
    runs_s: int
    gpus: int
    size: int
    priority: int | None
    preemptible: bool
    asked: bool
    marathon: int


@st.composite
def comes(draw: st.DrawFn) -> Comes:
    size = draw(st.sampled_from([1, 1, 2, 3]))
    return Comes(
        at_s=draw(st.integers(0, 40)),
        runs_s=draw(st.integers(1, 40)),
        gpus=draw(st.integers(0, 1 if size == 3 else 2)),
        size=size,
        priority=draw(st.none() | st.integers(0, 2)),
        preemptible=draw(st.booleans()),
        asked=draw(st.booleans()),
        marathon=draw(st.integers(0, 1)),
    )


@dataclass
class Marathon:
    """One scheduler, and what it has of the master."""

    name: str
    state: State = field(default_factory=State)
    refused: dict[int, tuple[float, int]] = field(default_factory=dict)
    """By agent: until when what is free there is refused, and how many GPUs that were."""


@dataclass
class Cluster:
    """A master that offers what is free once a second, to one Marathon after the other, and tasks that end."""

    jobs: Sequence[Comes]
    marathons: list[Marathon]
    batched: bool
    now_s: float = T0
    count: int = 0
    offers: dict[str, tuple[int, int, Marathon]] = field(default_factory=dict)
    """Agent and GPUs of an offer that is out, and who has it."""
    tasks: dict[str, tuple[int, int, float, Marathon]] = field(default_factory=dict)
    """Agent, GPUs, end and owner of each task."""
    gangs: dict[str, set[str]] = field(default_factory=dict)
    service: dict[str, Any] | None = None
    turn: int = 0
    kills: int = 0

    def free(self, agent: int) -> int:
        held = sum(gpus for where, gpus, _, _ in self.tasks.values() if where == agent)
        return GPUS[agent] - held - sum(gpus for where, gpus, _ in self.offers.values() if where == agent)

    def feed(self, marathon: Marathon, event: Event) -> None:
        self.count += 1
        moment = Moment(self.now_s, ids_from(str(UUID(int=self.count))))
        marathon.state, actions = handle(marathon.state, event, moment, RULES)
        launched: list[str] = []
        for action in actions:
            launched += self.follow(marathon, action)
        self.whole(marathon, launched)

    def whole(self, marathon: Marathon, launched: list[str]) -> None:
        """What is launched in answer to one event is whole gangs."""
        for task_id in launched:
            task = marathon.state.instances[instance_of(task_id) or ""].task
            assert task is not None
            if task.gang is not None:
                self.gangs.setdefault(task.gang.id, set()).add(task_id)
                mates = {
                    other
                    for other in launched
                    if (its := marathon.state.instances[instance_of(other) or ""].task)
                    and its.gang == replace(task.gang, rank=its.gang.rank if its.gang else -1)
                }
                assert len(mates) == task.gang.size, "a part of a gang"
                assert len({self.tasks[mate][0] for mate in mates}) == task.gang.size, "two on one machine"

    def follow(self, marathon: Marathon, action: Action) -> list[str]:
        match action:
            case Launch():
                agent, gpus, owner = self.offers.pop(action.offer_id)
                assert owner is marathon
                for info in action.task_infos:
                    taken = sum(int(r["scalar"]["value"]) for r in info["resources"] if r["name"] == "gpus")
                    gpus -= taken
                    name = info["name"].split(".")[0]
                    runs_s = inf if name == "service" else self.jobs[int(name[1:])].runs_s
                    self.tasks[info["task_id"]["value"]] = (agent, taken, self.now_s + runs_s, marathon)
                assert gpus >= 0, "more than was offered"
                marathon.refused[agent] = (self.now_s + action.refuse_s, gpus)
                return list(action.task_ids)
            case Decline():
                for offer_id in action.offer_ids:
                    agent, gpus, _ = self.offers.pop(offer_id)
                    marathon.refused[agent] = (self.now_s + action.refuse_s, gpus)
            case Revive():
                marathon.refused.clear()
            case Kill(task_id=task_id):
                if task_id in self.tasks:
                    agent, gpus, _, owner = self.tasks[task_id]
                    self.tasks[task_id] = (agent, gpus, min(self.tasks[task_id][2], self.now_s + 1.0), owner)
                    self.kills += 1
        return []

    def allocate(self) -> None:
        """Offer what is free and not refused; who is asked first changes."""
        self.turn += 1
        for marathon in (self.marathons * 2)[self.turn % len(self.marathons) :][: len(self.marathons)]:
            made = []
            for agent in range(len(GPUS)):
                until_s, gpus = marathon.refused.get(agent, (0.0, -1))
                out = any(where == agent for where, _, _ in self.offers.values())
                if (self.free(agent) or not out) and not (self.now_s < until_s and self.free(agent) <= gpus):
                    self.count += 1
                    name = f"O{self.count}"
                    made.append(offer(name, agent=f"S{agent}", host=f"h{agent}", gpus=self.free(agent), cpus=50))
                    self.offers[name] = (agent, self.free(agent), marathon)
            for batch in [made] if self.batched else [[each] for each in made]:
                if batch and all(each["id"]["value"] in self.offers for each in batch):
                    self.feed(marathon, Offered(batch))

    def step(self) -> None:
        self.now_s += 1.0
        for number, each in enumerate(self.jobs):
            if each.at_s == self.now_s - T0:
                marathon = self.marathons[each.marathon % len(self.marathons)]
                limit = {"maxRuntimeSeconds": each.runs_s + 2} if each.asked else {}
                asked = {} if each.priority is None else {"priority": each.priority}
                gang = {} if each.size == 1 else {"gang": {"size": each.size}}
                document = job(f"j{number}", gpus=each.gpus, preemptible=each.preemptible, **limit, **asked, **gang)
                self.feed(marathon, PutJob(document))
                self.feed(marathon, StartRun(f"j{number}", f"R{number}"))
        for task_id, (_, _, ends_s, marathon) in sorted(self.tasks.items()):
            known = marathon.state.instances.get(instance_of(task_id) or "")
            if known is not None and known.task is not None and known.task.state == "TASK_STAGING":
                self.feed(marathon, status(task_id, timestamp=self.now_s))
            if ends_s <= self.now_s and task_id in self.tasks:
                killed = task_id in marathon.state.kills
                del self.tasks[task_id]
                self.feed(marathon, status(task_id, "TASK_KILLED" if killed else "TASK_FINISHED"))
        self.allocate()
        for marathon in self.marathons:
            at_s = next_tick_s(marathon.state, RULES, Moment(self.now_s, ids_from(str(UUID(int=0)))))
            if at_s is not None and at_s <= self.now_s + 1.0:
                self.feed(marathon, Tick())

    def run(self, steps: int, crash_at: int | None) -> None:
        for marathon in self.marathons:
            self.feed(marathon, Subscribed(marathon.name, "m", again=False))
        if self.service is not None:
            self.feed(self.marathons[0], PutApps([self.service], "d"))
        for number in range(steps):
            if number == crash_at:
                self.crash(self.marathons[0])
            self.step()
            for agent in range(len(GPUS)):
                assert self.free(agent) >= 0
            if number > 41 and not any(job.runs for m in self.marathons for job in m.state.jobs.values()):
                return
        waiting = {app for m in self.marathons for app in m.state.waiting.values()}
        pytest.fail(f"{waiting} wait for ever")

    def crash(self, marathon: Marathon) -> None:
        """It starts again over what is on disk, and its offers are void."""
        marathon.state = restored(marathon.state.lasting)
        self.offers = {name: each for name, each in self.offers.items() if each[2] is not marathon}
        marathon.refused.clear()
        self.feed(marathon, Subscribed(marathon.name, "m", again=True))


@settings(max_examples=examples(40))
@given(st.lists(comes(), min_size=1, max_size=8), st.integers(1, 2), st.booleans(), st.none() | st.integers(5, 60))
@example(
    # Two Marathons of which each had what the other needed, gave it back, and had the other half: for ever.
    [
        Comes(29, 7, 1, 1, 2, preemptible=False, asked=False, marathon=1),
        Comes(10, 37, 1, 3, 0, preemptible=True, asked=False, marathon=0),
        Comes(28, 20, 1, 3, None, preemptible=True, asked=False, marathon=1),
        Comes(3, 29, 1, 3, None, preemptible=False, asked=False, marathon=1),
        Comes(40, 31, 1, 3, 0, preemptible=False, asked=False, marathon=0),
        Comes(4, 26, 2, 2, None, preemptible=True, asked=True, marathon=0),
        Comes(22, 35, 0, 3, 1, preemptible=True, asked=True, marathon=0),
    ],
    2,
    False,
    6,
)
def test_in_any_history_gangs_start_whole_and_everything_ends(
    listed: list[Comes], marathons: int, batched: bool, crash_at: int | None
) -> None:
    cluster = Cluster(listed, [Marathon(f"F{n}") for n in range(marathons)], batched)
    cluster.run(2500, crash_at)
    ended = {name: each.history for m in cluster.marathons for name, each in m.state.jobs.items()}
    assert {(history.successes, history.failures) for history in ended.values()} <= {(1, 0)}


@settings(max_examples=examples(40))
@given(st.lists(comes(), min_size=1, max_size=6), st.booleans(), st.integers(1, 5))
def test_what_gives_way_does_so_once_for_each_that_needs_it(listed: list[Comes], batched: bool, instances: int) -> None:
    asked = [
        dataclasses.replace(each, priority=1 + (each.priority or 0), marathon=0, preemptible=False) for each in listed
    ]
    cluster = Cluster(asked, [Marathon("F0")], batched)
    service = app("/service", gpus=1, instances=instances, preemptible=True)
    cluster.service = service
    cluster.run(2500, None)
    gpus = sum(each.gpus * each.size for each in asked)
    assert cluster.kills <= gpus * 2, "more than once for each GPU that somebody needed"


def test_a_gang_has_what_gave_way_for_it_also_when_what_is_free_beside_it_was_refused_until_just_then() -> None:
    """A refusal that was over and an offer not made again yet: the GPU in between was nobody's, and all began again."""
    plain = Comes(0, 1, 0, 1, 1, preemptible=False, asked=False, marathon=0)
    pairs = dataclasses.replace(plain, at_s=2, gpus=2, size=2), dataclasses.replace(plain, at_s=12, size=2)
    cluster = Cluster([plain, plain, plain, *pairs], [Marathon("F0")], batched=False)
    cluster.service = app("/service", gpus=1, instances=4, preemptible=True)
    cluster.run(2500, None)
    assert cluster.kills == 3
