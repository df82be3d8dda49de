"""What the registry forgets by itself."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.master.decisions.registry_gc import collect, due
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import KnownAgent
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.state.state import MasterState
from tests.support.master.at_once import agents, readmission, stored
from tests.support.master.build import (
    NOW,
    add_agent,
    add_framework,
    later,
    launch,
    new_state,
    offers,
    report,
    task_info,
)
from tests.support.master.live import live_master, until

DAY_S = 24 * 3600.0


def known(agent_id: str, since_s: float | None = None) -> KnownAgent:
    return KnownAgent(report(agent_id=agent_id).info, report().pid, since_s)


def one_after_the_other(since_s: list[float], now_s: float, max_age_s: float, max_count: int) -> list[int]:
    """As Mesos goes through them: it looks at each once, and counts down."""
    left, removed = len(since_s), []
    for number, since in enumerate(since_s):
        if left > max_count or now_s - since > max_age_s:
            removed.append(number)
            left -= 1
    return removed


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_the_oldest_of_too_many_go_and_all_that_are_too_old(since_s: list[int], age_s: int, count: int) -> None:
    found = due([(str(n), float(s)) for n, s in enumerate(since_s)], 10.0, max_age_s=age_s, max_count=count)
    assert list(found) == [str(n) for n in one_after_the_other([float(s) for s in since_s], 10.0, age_s, count)]


def test_an_agent_that_was_unreachable_for_two_weeks_is_forgotten_with_its_tasks() -> None:
    state = new_state()
    agent, framework = add_agent(state), add_framework(state, capabilities="GPU_RESOURCES PARTITION_AWARE")
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    agents.unreachable(state, agent.id, NOW)
    state.gone = {"gone": NOW.wall_s}
    state.deactivated[agent.id] = None
    assert collect(state, later(14 * DAY_S)) == []
    stored(state, collect(state, later(14 * DAY_S + 1)))
    assert (state.unreachable, state.gone, state.deactivated, framework.unreachable) == ({}, {}, {}, {})
    # It may come back all the same: it is admitted as one that was never known to be away.
    readmission.reregister(state, report(agent_id=agent.id), later(15 * DAY_S))
    assert list(state.agents) == [agent.id]


def test_the_newest_stay_where_there_are_too_many() -> None:
    state = new_state()
    state.settings = replace(state.settings, registry_max_agent_count=1)
    state.unreachable = {name: known(name, NOW.wall_s) for name in ("a", "b", "c")}
    state.gone = {"x": NOW.wall_s, "y": NOW.wall_s}
    record = state.record().copy()
    [prune] = collect(state, NOW)
    assert prune.operation.apply(record)  # type: ignore[union-attr]
    stored(state, [prune])
    assert (list(state.unreachable), list(state.gone)) == (["c"], ["y"])
    assert record == state.record()
    assert collect(state, NOW) == []


def test_one_that_is_back_before_it_is_forgotten_stays() -> None:
    state = MasterState({"id": "m"}, replace(new_state().settings, registry_max_agent_count=0), NOW)
    state.unreachable = {"a": known("a", 1.0)}
    back = readmission._module.reregister(state, report(agent_id="a"), NOW)
    prune = collect(state, NOW)
    stored(state, [*back, *prune])
    assert list(state.agents) == ["a"]


async def test_a_master_forgets_by_its_flags(tmp_path: Path) -> None:
    record = Record(unreachable={"old": known("old", 1.0), "new": known("new", 4e9)}, gone={"left": 1.0})
    Registry(tmp_path).save(record)
    flags = ("--registry_gc_interval=10ms", "--registry_max_agent_age=1days", "--check_invariants")
    async with live_master(tmp_path, *flags) as master:
        await until(lambda: list(master.engine.state.unreachable) == ["new"])
        assert not master.engine.state.gone
        assert not master.engine.failed.done()
    assert list(Registry(tmp_path).load().unreachable) == ["new"]
