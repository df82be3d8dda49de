"""One history from a seed: people and faults for some hours, then peace, then the judgement."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

# What services import when they need it first is there before any history: it would be each one's own work.
import mesos_gpu.placement.fleet  # noqa: F401
from mesos_gpu.mesos.codec import library
from mesos_gpu.process.build import build
from tests.sim import deciding
from tests.sim.actors import Actor, Stage, drawn, names_of
from tests.sim.ambushing import Ambushing
from tests.sim.failing import Failing
from tests.sim.faults import Faults, haunt_of, some_kinds, swarm
from tests.sim.grouping import Grouping
from tests.sim.guest import Guest
from tests.sim.health import Checked
from tests.sim.install import begin
from tests.sim.judge import Judge
from tests.sim.loop import Stuck
from tests.sim.operators import HOW_OFTEN, Operators
from tests.sim.outages import Outages
from tests.sim.overtaken import Overtaken
from tests.sim.paces import PACES, Pacing, pace_of
from tests.sim.people import People, acts_of
from tests.sim.preempting import Preempting
from tests.sim.replacing import Replaced
from tests.sim.services import Cluster, Shape
from tests.sim.sharing import Sharing
from tests.sim.world import Process, World

BEGUN_S = 60.0
"""By when the services have begun; then people and faults do."""
PEACE_S = 2400.0
"""How long everything works before the judgement: longer than every time-out and interval of the services."""
TIMED_S = 300.0
"""How long before it jobs with schedules are removed."""
CLEANING_S = 900.0
WHOLE_S = 300.0
GUESTS = 0.6
"""How many histories have a framework beside Marathon."""
GUEST_S = 60.0
"""How often it kills something, in the mean."""
KEPT = 0.4
"""How many histories have operators who drain agents and the like, so often:"""
OPERATORS_S = 300.0
PEOPLE_S = (15.0, 40.0, 40.0, 90.0)
FAULTS_S = (20.0, 40.0, 80.0, 160.0)
"""Mean pauses that histories have, in seconds."""
ACTORS: tuple[type[Actor], ...] = (
    Replaced,
    Checked,
    Preempting,
    Failing,
    Ambushing,
    Sharing,
    Overtaken,
    Outages,
    Grouping,
)

# So is what a program works out once: the age of its files, and the descriptors of all messages.
build()
library.read("mesos.v1.scheduler.Call", {"type": "SUBSCRIBE"}, partial=True)


@dataclass(frozen=True)
class Plan:
    """What a history is made of. `hours` are those in which things break; pauses are means, in seconds.

    How many `masters` and `marathons` there are, how often people and faults come, which faults do, which `actors`
    there are and at what `pace` all is follows from the seed where nobody says it.
    """

    seed: int
    hours: float = 1.0
    agents: int = 3
    gpus: int = 4
    people_s: float | None = None
    faults_s: float | None = None
    masters: int | None = None
    marathons: int | None = None
    actors: tuple[str, ...] | None = None
    pace: str | None = None
    shared: int | None = None
    """How many GPUs of each agent tasks share."""
    first: bool = False
    """Whether it ends at what it finds first."""


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    plan: Plan
    pace: str
    findings: tuple[str, ...]
    digest: str
    simulated_s: float
    faults: int
    calls: int
    containers: int


def play(plan: Plan, root: Path, *, listener: object = None) -> Verdict:
    """Play one history below a folder that is empty. Call it once in a process: what it patches stays so."""
    pacing = Pacing(PACES[plan.pace] if plan.pace else pace_of(plan.seed), plan.seed)
    pacing.until_s = BEGUN_S + plan.hours * pacing.pace.hours * 3600
    world = World(plan.seed, root, pacing)
    if callable(listener):
        world.listener = listener
    world.first = plan.first
    begin(world)
    asyncio.set_event_loop(world.loop)
    names = names_of(plan.seed, ACTORS, plan.actors)
    cluster = _cluster(plan, world, names)
    if not pacing.pace.dense:
        world.tell("pace", pacing.pace.name)
    judge = Judge(world, cluster)
    deciding.install(world)
    people = People(world, cluster, cluster.whole, acts_of(plan.seed))
    faults = Faults(world, cluster, some_kinds(plan.seed), haunt_of(plan.seed))
    people.on_act.append(faults.acted)
    person = world.spawn("person", world.add_host("person"))
    if Random(f"guest at {plan.seed}").random() < GUESTS:
        judge.guest = Guest.drawn(world, cluster)
        world.tell("guest", f"is there: {', '.join(sorted(judge.guest.habits))}")
        visitor = world.spawn("guest", world.add_host("guest"))
        world.soon(0.0, _visit, judge.guest.work(GUEST_S), visitor, process=visitor)
        faults.on_fault.append(partial(world.soon, 0.0, judge.guest.startled, process=visitor))
    operators = Operators(world, cluster, swarm(plan.seed, "operators", HOW_OFTEN))
    operators.drains = judge.guest is None or "never" not in judge.guest.habits
    if Random(f"operators at {plan.seed}").random() < KEPT:
        judge.operators = operators
        keeper = world.spawn("operator", world.add_host("operator"))
        world.soon(90.0, _visit, operators.work(OPERATORS_S), keeper, process=keeper)
    actors = drawn(Stage(world, cluster, people, judge), ACTORS, names)
    for actor in actors:
        visitor = world.spawn(actor.name, world.add_host(actor.name))
        world.soon(90.0, _visit, actor.work(), visitor, process=visitor)
    watchman = world.spawn("judge", world.add_host("judge"))
    world.soon(0.0, _visit, judge.watch(), watchman, process=watchman)
    for name in cluster.names:
        cluster.start(name)
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        tasks.append(asyncio.ensure_future(_whole(plan, people, faults, judge, actors)))
        tasks[0].add_done_callback(lambda _: world.loop.stop())

    world.soon(0.0, start, process=person)
    # Closing what the dead have left would be steps of theirs.
    gc.disable()
    try:
        world.loop.run_forever()
    except Stuck as stuck:
        world.finding(f"stuck: {stuck}")
    if tasks and tasks[0].done() and tasks[0].exception() is not None:
        raise RuntimeError("the simulator is at fault") from tasks[0].exception()
    containers = sum(judge.begun.values())
    findings = tuple(world.findings)
    return Verdict(plan, pacing.pace.name, findings, world.digest, world.now_s, faults.count, people.calls, containers)


def _cluster(plan: Plan, world: World, actors: Sequence[str]) -> Cluster:
    """Return the cluster of a history that has these actors."""
    shape = Shape.drawn(plan.seed, plan.agents, plan.gpus)
    if plan.masters is not None:
        shape = replace(shape, masters=plan.masters, marathons=plan.marathons or 1)
    shared = Random(f"shared at {plan.seed}").choice((1, 2, 2)) if Sharing.name in actors else 0
    shape = replace(shape, shared=shared if plan.shared is None else plan.shared)
    cluster = Cluster(world, shape)
    world.tell("shape", str(shape))
    if shape.shared:
        told = {name: machine.cards for name, machine in cluster.machines.items() if machine.cards}
        world.tell("shape", f"shared: {told}")
    return cluster


def _visit(work: Coroutine[Any, Any, None], visitor: Process) -> None:
    visitor.kept.append(asyncio.ensure_future(work))


async def _whole(plan: Plan, people: People, faults: Faults, judge: Judge, actors: Sequence[Actor]) -> None:
    chance = Random(f"pauses of {plan.seed}")
    people_s = plan.people_s or chance.choice(PEOPLE_S)
    faults_s = plan.faults_s or chance.choice(FAULTS_S)
    people.world.tell("faults", f"{', '.join(faults.kinds)}, every {faults_s:g} s; people every {people_s:g} s")
    await asyncio.sleep(BEGUN_S)
    working = [asyncio.ensure_future(people.work(people_s)), asyncio.ensure_future(faults.work(faults_s))]
    await asyncio.sleep(plan.hours * people.world.pacing.pace.hours * 3600)
    people.busy = False
    faults.mend()
    for actor in actors:
        actor.busy = False
        actor.mend()
    if judge.guest is not None:
        judge.guest.busy = False
    await asyncio.wait(working, timeout=600.0)
    if judge.operators is not None:
        await judge.operators.leave()
    await people.remove_late()
    for actor in actors:
        await actor.leave()
    await people.remove_late()
    for name in [name for name, wanted in people.apps.items() if not wanted.lasting]:
        # Nobody may be there to take it yet.
        for _ in range(20):
            if await people.delete(name) is not None:
                break
            await asyncio.sleep(30.0)
        del people.apps[name]
    await asyncio.sleep(PEACE_S - TIMED_S)
    judge.timed(people)
    await people.stop_timed()
    await asyncio.sleep(TIMED_S)
    await judge.settled(people)
    for actor in actors:
        await actor.settled()
    if judge.guest is not None:
        await judge.guest.end()
    for name in sorted(people.apps):
        await people.delete(name)
    await asyncio.sleep(CLEANING_S)
    await judge.empty(people)
    await judge.whole(people, WHOLE_S)
