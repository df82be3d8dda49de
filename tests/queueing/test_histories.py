"""Random histories of a queue: whole units only, nobody waits for ever, promises are kept, the books are equal."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.queueing.decide import Decision, decide
from mesos_gpu.queueing.values import Ask, Free, Running, rank_of, taken
from mesos_gpu.queueing.values import given as given_back
from tests.support.histories import examples

AGING_S, FAIR_S = 50.0, 20.0
GPUS = (4, 4, 2)
CAPACITY = {f"m{n}": Machine(16_000, 64_000, (WHOLE,) * count) for n, count in enumerate(GPUS)}


@dataclass(frozen=True)
class Job:
    """One that comes at a time, and runs for so long."""

    at_s: int
    runs_s: int
    gpus: int
    size: int = 1
    one_per_host: bool = True
    priority: int = 0
    role: str = "r"
    asked_s: int | None = None
    preemptible: bool = False


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    runs_s = draw(st.integers(1, 30))
    size = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return Job(
        at_s=draw(st.integers(0, 60)),
        runs_s=runs_s,
        gpus=draw(st.integers(0, 2 if size == 3 else 4)),
        size=size,
        one_per_host=draw(st.booleans()),
        priority=draw(st.integers(0, 2)),
        role=draw(st.sampled_from("rs")),
        asked_s=draw(st.none() | st.integers(runs_s, 40)),
        preemptible=draw(st.booleans()),
    )


@dataclass
class Cluster:
    """All machines, what runs and what waits, on a clock."""

    jobs: list[Job]
    now_s: float = 0.0
    free: Free = field(default_factory=lambda: dict(CAPACITY))
    running: dict[str, list[Running]] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    """Since when, by the job's number as text."""
    started: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    promised: dict[str, float] = field(default_factory=dict)
    """Until when the first was told that it starts, as long as nobody of less rank comes before it."""
    first: str | None = None
    """Whom the last look promised something."""
    ends: list[tuple[float, str, float]] = field(default_factory=list)

    def run(self) -> None:
        comes = [(float(job.at_s), str(n)) for n, job in enumerate(self.jobs)]
        heapq.heapify(comes)
        for _ in range(40 * len(self.jobs) + 10):
            if not comes and not self.ends:
                break
            self.now_s = min([*(at for at, _ in comes[:1]), *(at for at, *_ in self.ends[:1])])
            while self.ends and self.ends[0][0] == self.now_s:
                _, unit, since_s = heapq.heappop(self.ends)
                if self.started.get(unit) == since_s and unit in self.running:
                    self.end(unit)
            while comes and comes[0][0] == self.now_s:
                number = heapq.heappop(comes)[1]
                self.waiting[number] = self.now_s
            self.look()
        assert not self.waiting, f"{self.waiting} wait for ever"
        assert not self.running
        assert self.free == CAPACITY

    def end(self, unit: str) -> None:
        tasks = self.running.pop(unit)
        self.free = {
            name: _together(machine, [t.demand for t in tasks if t.machine == name])
            for name, machine in self.free.items()
        }

    def rank(self, number: str) -> float:
        job = self.jobs[int(number)]
        held = sum(t.demand.gpus for unit, ts in self.running.items() for t in ts if self.role(unit) == job.role)
        return rank_of(self.waiting[number], job.priority, held / sum(GPUS), aging_s=AGING_S, fair_s=FAIR_S)

    def role(self, number: str) -> str:
        return self.jobs[int(number)].role

    def look(self) -> None:
        """Decide until nobody has to give way any more."""
        while True:
            asks = [self.ask(number) for number in self.waiting]
            tasks = [task for unit in self.running.values() for task in unit]
            found = decide(asks, self.free, tasks, self.now_s, promised=self.first)
            self.check(asks, found)
            self.first = found.promise.ask.id if found.promise is not None else None
            for start in found.starts:
                self.start(start.ask, start.members)
            for unit in found.gives_way:
                self.give_way(unit, found)
            if not found.gives_way:
                return

    def ask(self, number: str) -> Ask:
        job = self.jobs[int(number)]
        demand, limit = Demand(1000, 100, job.gpus), None if job.asked_s is None else float(job.asked_s)
        return Ask(number, self.rank(number), demand, job.size, 1, job.one_per_host, job.priority, limit)

    def check(self, asks: list[Ask], found: Decision) -> None:
        started = {start.ask for start in found.starts}
        for start in found.starts:
            job = self.jobs[int(start.ask)]
            assert sum(start.members.values()) == job.size, "a part of a unit"
            assert not job.one_per_host or set(start.members.values()) == {1}
        left = [ask for ask in asks if ask.id not in started]
        for ask in left:
            for other in asks:
                alike = replace(other, id=ask.id, rank=ask.rank, priority=ask.priority) == ask
                assert not (other.id in started and alike and other.rank > ask.rank), "one of less rank went before"
        now = {ask.id: ask.rank for ask in asks}
        for number in list(self.promised):
            if any(now[each] < now[number] for each in started):
                del self.promised[number]  # who comes first was there before it, whoever was promised what
        if found.promise is not None:
            number, at_s = found.promise.ask.id, found.promise.at_s
            ranks = {ask.id: ask.rank for ask in left}
            ranks[number] = found.promise.ask.rank
            for earlier in self.promised.keys() - {number}:
                assert earlier not in ranks or ranks[number] < ranks[earlier], (
                    "another was promised something in its place"
                )
                del self.promised[earlier]
            assert at_s <= self.promised.get(number, inf), "a promise was put off"
            self.promised[number] = at_s
        for number, at_s in self.promised.items():
            if number in {ask.id for ask in left}:
                assert self.now_s < at_s or found.gives_way or self.now_s == at_s, "a promise was broken"

    def start(self, number: str, members: Mapping[str, int]) -> None:
        job, since_s = self.jobs[int(number)], self.now_s
        ask = self.ask(number)
        free = dict(self.free)
        self.running[number] = []
        for name, count in members.items():
            for _ in range(count):
                free[name] = taken(free[name], ask.demand)
                self.running[number].append(
                    Running(number, name, ask.demand, ask.ends_s(since_s), since_s, job.priority, job.preemptible)
                )
        self.free = free
        del self.waiting[number]
        self.promised.pop(number, None)
        self.started[number] = since_s
        heapq.heappush(self.ends, (since_s + job.runs_s, number, since_s))

    def give_way(self, unit: str, found: Decision) -> None:
        assert found.promise is not None
        taker, giver = self.jobs[int(found.promise.ask.id)], self.jobs[int(unit)]
        assert giver.preemptible
        assert giver.priority < taker.priority
        self.end(unit)
        self.lost += 1
        self.waiting[unit] = self.now_s


def _together(machine: Machine, demands: list[Demand]) -> Machine:
    for demand in demands:
        whole = machine.whole + demand.gpus
        machine = replace(given_back(machine, demand), cards=(WHOLE,) * whole + (0,) * (len(machine.cards) - whole))
    return machine


SHARES_BECOME_EQUAL = [
    *(Job(at_s=0, runs_s=1, gpus=0, one_per_host=False) for _ in range(8)),
    Job(at_s=1, runs_s=1, gpus=4, priority=2),
    Job(at_s=1, runs_s=1, gpus=1, size=3, priority=2, role="s"),
    Job(at_s=0, runs_s=2, gpus=2, asked_s=2),
]
"""Job 9 is promised machines; job 8 comes to be of equal rank when the last task of its role ends."""
COMES_LATER = [
    Job(at_s=50, runs_s=5, gpus=4, priority=1),
    Job(at_s=0, runs_s=60, gpus=4, asked_s=60),
    Job(at_s=0, runs_s=51, gpus=4, asked_s=51),
    Job(at_s=0, runs_s=60, gpus=1, asked_s=60),
    Job(at_s=0, runs_s=5, gpus=4, asked_s=5),
]
"""Job 0 comes when job 4, which waits and has been promised a machine, has the rank that its priority gives it."""


@settings(max_examples=examples(150))
@given(st.lists(jobs(), min_size=1, max_size=14))
@example(SHARES_BECOME_EQUAL)
@example(COMES_LATER)
def test_any_history_comes_to_an_end(listed: list[Job]) -> None:
    Cluster(listed).run()
