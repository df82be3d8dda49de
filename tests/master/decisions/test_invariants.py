"""Books that do not add up are noticed, and a master that looks for it stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.decisions.handle import decide
from mesos_gpu.master.decisions.invariants import Books, broken, differs
from mesos_gpu.master.events.agents import Register, Reregister
from mesos_gpu.master.events.timers import Allocate
from mesos_gpu.master.model.model import Agent, Framework, KnownAgent
from mesos_gpu.master.state.actions import Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.master.build import NOW, add_agent, add_framework, launch, new_state, offers, report, task_info
from tests.support.master.live import live_master, soon

GPU = Resources.parse("gpus:1")


def busy() -> tuple[MasterState, Agent, Framework]:
    state = new_state()
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent), refuse_s=0)
    state.filters.expire(1e9)
    assert len(offers(state)) == 1
    return state, agent, framework


def test_books_in_order_are_not_complained_of() -> None:
    assert broken(busy()[0]) is None


def test_the_allocator_need_not_know_of_withheld_resources_yet() -> None:
    state, agent, _ = busy()
    agent.total += GPU
    state.withheld[agent.id] = False
    assert broken(state) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda s, a, f: a.charge(f.id, GPU),
        lambda s, a, f: a.offers.clear(),
        lambda s, a, f: setattr(a, "total", a.total - GPU),
        lambda s, a, f: setattr(a, "connected", False),
        lambda s, a, f: f.offers.clear(),
        lambda s, a, f: f.tasks.clear(),
        lambda s, a, f: a.tasks["x"].clear() if "x" in a.tasks else f.tasks["t"].document.update(state="TASK_FAILED"),
        lambda s, a, f: setattr(f, "stream_id", None),
        lambda s, a, f: f.tasks.update(t2=deepcopy(f.tasks["t"])),
        lambda s, a, f: f.tasks.update(t=deepcopy(f.tasks["t"])),
        lambda s, a, f: f.offers.update(o2=replace(*f.offers.values(), id="o2")),
        lambda s, a, f: (
            f.tasks.update(t2=f.tasks.pop("t")),
            a.tasks.update({(f.id, "t2"): a.tasks.pop((f.id, "t"))}),
        ),
        lambda s, a, f: f.tasks["t"].document.update(agent_id={"value": "another"}),
        lambda s, a, f: setattr(a, "total", a.total + GPU),
    ],
    ids=[
        *("used", "offers of the agent", "total", "disconnected", "offers of the framework", "tasks of the framework"),
        *("charged after the end", "away", "task added", "task copied", "offer added", "task renamed"),
        *("task of another agent", "more than allocated"),
    ],
)
def test_damage_is_noticed(damage: Callable[[MasterState, Agent, Framework], object], golden: Golden) -> None:
    state, agent, framework = busy()
    books = Books()
    assert books.broken(state) is None
    damage(state, agent, framework)
    problem = books.broken(state)
    assert problem == golden
    assert broken(state) == problem
    assert books.broken(state) == problem


def test_an_agent_may_come_back_with_less_than_tasks_have_that_it_does_not_list() -> None:
    # Its machine lost its power: what was given up there while it was away is reserved again, and its tasks are gone.
    state, agent, _ = busy()
    books = Books()
    [task] = agent.tasks.values()
    task.unlisted = True
    agent.total = agent.total - GPU - GPU
    state.touch(agent)
    state.allocation_due = True
    assert books.broken(state) is None
    task.unlisted = False
    assert books.broken(state) is not None


def test_an_agent_may_come_back_with_less_than_a_task_has_whose_end_is_not_told_yet() -> None:
    # The card is ill: what is free of it is offered no more, before the master hears that the task has ended.
    state, books = new_state(), Books()
    agent = add_agent(state, "cpus:8;mem:8192;gpu_mem:[1000-1014];gpu_slices:[1000-1024]")
    framework = add_framework(state)
    [offer] = offers(state)
    part = "gpu_mem:[1003-1004];gpu_slices:[1000-1000]"
    task = {**task_info(agent), "resources": Resources.parse(f"cpus:1;mem:32;{part}").to_json()}
    launch(state, offer, task, refuse_s=0)
    [known] = agent.tasks.values()
    listed = {"tasks": [known.document], "frameworks": [framework.info]}
    less = report("cpus:8;mem:8192", agent_id=agent.id, **listed)
    for action in decide(state, Reregister(less), NOW):
        if isinstance(action, Store):
            decide(state, action.then, NOW)
    assert agent.beyond == Resources.parse(part)
    assert books.broken(state) is None
    agent.charge(framework.id, Resources.parse("gpu_mem:[1005-1005]"))
    known.resources += Resources.parse("gpu_mem:[1005-1005]")
    assert books.broken(state) is not None


def test_what_is_mended_is_looked_at_again() -> None:
    state, agent, framework = busy()
    books = Books()
    agent.charge(framework.id, GPU)
    assert books.broken(state) is not None
    agent.refund(framework.id, GPU)
    assert books.broken(state) is None
    agent.charge(framework.id, GPU)
    assert books.broken(state) is not None


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda s, a: setattr(a, "pid", "slave(1)@10.0.0.9:5051"), "agents"),
        (lambda s, a: setattr(a, "info", {**a.info, "hostname": "another"}), "agents"),
        (lambda s, a: s.agents.clear(), "agents"),
        (lambda s, a: add_agent(s, port=5052), "agents"),
        (lambda s, a: s.recovered.clear(), "agents"),
        (lambda s, a: s.recovered.update(old=replace(s.recovered["old"], pid="another")), "agents"),
        (lambda s, a: s.recovered.update(older=s.recovered["old"]), "agents"),
        (lambda s, a: s.gone.update(x=1.0), "gone"),
        (lambda s, a: s.unreachable.update(x=1.0), "unreachable"),
        (lambda s, a: s.deactivated.update({a.id: None}), "deactivated"),
        (lambda s, a: s.policy.weights.update(r=2.0), "policy"),
    ],
)
def test_a_registry_that_says_otherwise_is_noticed(damage: Callable[[MasterState, Agent], object], part: str) -> None:
    state, agent, _ = busy()
    state.recovered["old"] = KnownAgent({"id": {"value": "old"}}, "slave(1)@10.0.0.8:5051")
    record = deepcopy(state.record())
    assert differs(state, record) is None
    damage(state, agent)
    assert re.search(rf"\b{part}\b", differs(state, record) or "")


def test_an_agent_that_has_gone_is_forgotten() -> None:
    state, agent, framework = busy()
    books = Books()
    assert books.broken(state) is None
    for gone in ({}, {agent.id: agent}):
        state.agents = gone
        framework.offers.clear()
        framework.tasks.clear()
        agent.charge(framework.id, GPU)
        assert (books.broken(state) is None) == (not gone)


async def test_a_master_that_checks_itself_stops(tmp_path: Path) -> None:
    async with live_master(tmp_path, "--check_invariants") as master:
        engine = master.engine
        await engine.store(Register(report()))
        [agent] = engine.state.agents.values()
        assert not engine.failed.done()
        agent.used_total = GPU
        engine.do(Allocate())
        with pytest.raises(Unavailable):
            await soon(engine.failed)
