"""Which folders are removed, and when: Mesos' rule in numbers, and under any order of events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from mesos_gpu.agent.decisions.collecting import GcRules, Schedule, in_use, is_within, of_framework, orphaned, spared_by
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.container.spec.config import Termination
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, key, run, task
from tests.support.agent.hosting import AWARE, AnyHistory
from tests.support.histories import examples

WEEK_S = 604_800.0
F = of_framework(AGENT_ID, FRAMEWORK_ID)


@pytest.mark.parametrize(("usage", "days"), [(0.0, 6.3), (0.4, 3.5), (0.8, 0.7), (0.9, 0.0), (0.95, 0.0), (1.0, 0.0)])
def test_the_fuller_the_disk_the_sooner_as_mesos_computes_it(usage: float, days: float) -> None:
    rules = GcRules()
    assert rules.allowed_age_s(usage) == pytest.approx(days * 86400)
    assert rules.sooner_s(usage) == pytest.approx(WEEK_S - days * 86400)


def test_a_folder_that_claims_to_be_of_the_future_stays_no_longer_than_others() -> None:
    assert GcRules().due_s(100.0, age_s=-5000.0) == 100.0 + WEEK_S
    assert GcRules().due_s(100.0, age_s=86400.0) == 100.0 + WEEK_S - 86400.0


def test_the_latest_word_about_a_folder_counts() -> None:
    schedule = Schedule()
    schedule.put("slaves/a/x", 10.0, folders=2)
    schedule.put("slaves/a/y", 20.0)
    schedule.put("slaves/a/x", 30.0, folders=2)
    assert (schedule.next_due_s, schedule.folders) == (20.0, 3)
    assert schedule.spare("slaves/a/y")
    assert not schedule.spare("slaves/a/y")
    assert schedule.next_due_s == 30.0
    assert schedule.take(29.9, 10) == []
    assert schedule.take(30.0, 10) == ["slaves/a/x"]
    assert schedule.next_due_s is None


def test_what_lies_inside_goes_first() -> None:
    schedule = Schedule()
    for path in ("slaves/a", "slaves/a/b/c", "slaves/a/b"):
        schedule.put(path, 1.0)
    assert schedule.take(1.0, 10) == ["slaves/a/b/c", "slaves/a/b", "slaves/a"]


MOVES = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 20)), max_size=40)


@given(MOVES, st.integers(0, 20), st.integers(1, 5))
def test_a_schedule_is_what_was_said_last_of_each_folder(
    moves: list[tuple[str, int | None]], until: int, most: int
) -> None:
    schedule, said = Schedule(), dict[str, int]()
    for path, due in moves:
        if due is None:
            assert schedule.spare(path) is (said.pop(path, None) is not None)
        else:
            schedule.put(path, due)
            said[path] = due
    assert schedule.next_due_s == min(said.values(), default=None)
    taken: list[str] = []
    while some := schedule.take(until, most):
        assert len(some) <= most
        taken += some
    assert sorted(taken) == sorted(path for path, due in said.items() if due <= until)
    assert set(schedule) == {path for path, due in said.items() if due > until}


def test_what_lies_around_something_that_is_used_is_no_orphan() -> None:
    found = [F, f"{F}/executors/e", f"{F}/executors/e/runs/1", f"{F}/executors/e/runs/2", "slaves/old"]
    assert orphaned(found, {f"{F}/executors/e/runs/2"}) == [f"{F}/executors/e/runs/1", "slaves/old"]


def test_what_lies_in_a_run_goes_with_it_and_out_of_one_that_lives_by_itself() -> None:
    one, two = f"{F}/executors/e/runs/1", f"{F}/executors/e/runs/2"
    found = [one, f"{one}/tasks/a", f"{two}/tasks/a", f"{two}/tasks/b", two, f"{two}/containers/x"]
    assert orphaned(found, {two, f"{two}/tasks/b"}) == [one, f"{two}/tasks/a", f"{two}/containers/x"]


class Collected(AnyHistory):
    """Executors, and command tasks that may have their names, while the agent collects after 30 seconds."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        super().__init__()

    def see(self, action: act.Action) -> None:
        for path in spared_by(AGENT_ID, action):
            self.schedule.spare(path)
        if isinstance(action, act.Discard):
            for path in action.paths:
                self.schedule.put(path, self.now_s + 30.0)

    def used(self) -> set[str]:
        return in_use(AGENT_ID, self.state.frameworks.active.values())

    @rule(name=st.sampled_from("xy"))
    def command_task(self, name: str) -> None:
        """Its folder has the name of an executor's."""
        if self.state.frameworks.task(key(name)) is None:
            self.ended.pop(name, None)  # another task, of a name that was free again
            self.do(run(task(name), info=AWARE))

    @rule(name=st.sampled_from("xy"))
    def command_ends(self, name: str) -> None:
        found = self.state.frameworks.task(key(name))
        if found is not None and found.phase is not Phase.OVER:
            self.do(ev.Ended(found.key, Termination(exit_code=0)))

    @rule()
    def framework_is_torn_down(self) -> None:
        """What it left is collected like any other; it may come back with the same id before that."""
        self.do(ev.ShutdownFramework(FRAMEWORK_ID))

    @rule()
    def collect(self) -> None:
        used = self.used()
        for path in self.schedule.take(self.now_s, 100):
            assert not any(is_within(one, path) for one in used), f"{path} is removed and something needs it"
            self.do(ev.Collected(path))

    @invariant()
    def nothing_that_is_used_waits_to_be_removed(self) -> None:
        used = self.used()
        for path in self.schedule:
            assert not any(is_within(one, path) for one in used)

    @invariant()
    def what_is_over_is_collected_or_waits(self) -> None:
        for framework in (*self.state.frameworks.active.values(), *self.state.frameworks.completed.values()):
            for one in framework.completed:
                name = one.key.executor if isinstance(one, Executor) else one.executor_id
                path = f"{F}/executors/{name}/runs/{one.container_id}"
                assert one.collected or path in self.schedule
        if FRAMEWORK_ID in self.state.frameworks.completed and FRAMEWORK_ID not in self.state.frameworks.active:
            runs = self.state.frameworks.completed[FRAMEWORK_ID].completed
            assert F in self.schedule or all(one.collected for one in runs)


TestCollected = Collected.TestCase
TestCollected.settings = settings(max_examples=examples(60), stateful_step_count=40)
