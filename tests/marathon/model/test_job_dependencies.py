"""Jobs that wait for others: which may, when they start, and that no history starts one too often or never."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import Conflict, InvalidApp
from mesos_gpu.marathon.model.jobs import Job, new_run_id
from mesos_gpu.marathon.state.actions import Launch
from mesos_gpu.marathon.state.events import PutJob, PutSchedule, RemoveJob, StartRun, StopRun, Subscribed
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.store.rows import lasting_of, rows_of, saves_of
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.builders import Run, job, only, schedule, status
from tests.support.marathon.service import Marathon


def after(job_id: str, *parents: str, **run: Any) -> dict[str, Any]:
    return {**job(job_id, **run), "dependencies": [{"id": parent} for parent in parents]}


class Chain(Run):
    """A scheduler with jobs that wait for others."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        super().__init__()
        self.subscribe()
        self._runs = 0
        for document in documents:
            self.do(PutJob(document), after_s=1)

    def job(self, job_id: str) -> Job:
        return self.state.lasting.jobs[job_id]

    def start(self, job_id: str) -> str:
        self._runs += 1
        run_id = new_run_id("20261121160000", self._runs)
        self.do(StartRun(job_id, run_id), after_s=1)
        return run_id

    def launch(self) -> None:
        """Let every run begin that can."""
        for launch in only(self.offer(cpus=100, mem=10000), Launch):
            for task_id in launch.task_ids:
                self.do(status(task_id))

    def end(self, job_id: str, state: str = "TASK_FINISHED") -> None:
        """End the one run of a job that is under way."""
        self.launch()
        (run,) = self.job(job_id).runs.values()
        self.do(status(run.tasks[-1].id, state), after_s=1)

    def active(self) -> list[str]:
        return [known.id for known in self.state.lasting.jobs.values() for _ in known.runs]

    def crash(self) -> None:
        """Go on with what a store kept of it."""
        kept = [row for save in saves_of(self.state.lasting) for row in rows_of(save)]
        self.state = restored(lasting_of(kept))
        self.do(Subscribed("F", "m", again=True))


def problems(run: Run, document: dict[str, Any], **how: Any) -> list[tuple[str, str]]:
    before = run.state
    with pytest.raises(InvalidApp) as refused:
        run.do(PutJob(document, **how))
    assert run.state is before
    return [(problem.path, problem.code) for problem in refused.value.problems]


def test_a_job_runs_when_all_it_depends_on_have_succeeded_since_its_last_run() -> None:
    run = Chain(job("a"), job("b"), after("c", "a", "b"))
    run.start("a")
    run.end("a")
    assert run.active() == [], "b has not run yet"
    run.start("a")
    run.end("a")
    run.start("b")
    run.crash()
    run.end("b")
    assert run.active() == ["c"]
    run.end("c")
    assert (run.active(), run.job("c").history.successes) == ([], 1)
    run.start("b")
    run.end("b")
    assert run.active() == [], "a has not succeeded again"
    run.start("a")
    run.end("a")
    assert run.active() == ["c"]


@pytest.mark.parametrize("bad", ["TASK_FAILED", "TASK_KILLED"])
def test_only_the_latest_run_of_each_counts(bad: str) -> None:
    run = Chain(job("a"), job("b"), after("c", "a", "b"))
    run.start("a")
    run.end("a")
    run.start("a")
    run.end("a", bad)
    run.start("b")
    run.end("b")
    assert run.active() == [], "a has failed since"
    run.start("a")
    run.launch()
    run.start("b")
    run.launch()
    run.end("b")
    assert run.active() == ["a"], "a runs again, and may fail"
    run.end("a")
    assert run.active() == ["c"]


def test_what_succeeded_before_it_was_there_or_while_it_runs_does_not_start_it() -> None:
    run = Chain(job("a"), job("b"))
    run.start("a")
    run.end("a")
    run.do(PutJob(after("c", "a", "b")), after_s=1)
    run.start("b")
    run.end("b")
    assert run.active() == []
    run.start("a")
    run.end("a")
    assert run.active() == ["c"]
    for parent in ("a", "b"):
        run.start(parent)
        run.launch()
        run.end(parent)
    assert run.active() == ["c"], "one at a time"
    run.end("c", "TASK_FAILED")
    assert run.active() == []
    for parent in ("b", "a"):
        run.start(parent)
        run.end(parent)
    assert run.active() == ["c"], "a failure does not stop it for good"


def test_a_run_that_was_stopped_starts_nothing_and_a_chain_goes_on_link_by_link() -> None:
    run = Chain(job("a"), after("b", "a"), after("c", "b"))
    stopped = run.start("a")
    run.launch()
    run.do(StopRun("a", stopped), after_s=1)
    assert run.active() == []
    run.start("a")
    for job_id in ("a", "b", "c"):
        run.end(job_id)
    assert [run.job(job_id).history.successes for job_id in ("a", "b", "c")] == [1, 1, 1]
    assert (run.job("a").history.failures, run.active()) == (1, [])


def test_what_cannot_depend_on_what(golden: Golden) -> None:
    run = Chain(job("a"), after("b", "a"), after("c", "b"))
    assert problems(run, after("d", "a", "x", "y")) == [("/dependencies", golden)]
    assert problems(run, after("d", "d")) == [("/dependencies", golden)]
    assert problems(run, after("a", "c"), create=False) == [("/dependencies", golden)]
    assert problems(run, after("d", "a", "a")) == [("/dependencies", golden)]
    assert problems(run, {**after("d", "a"), "schedules": [schedule()]}) == [("/dependencies", golden)]
    with pytest.raises(InvalidApp) as invalid:
        run.do(PutSchedule("b", schedule()))
    assert str(invalid.value) == golden
    run.do(PutSchedule("a", schedule(enabled=False)))
    run.do(PutJob(job("d")))
    run.do(PutSchedule("d", schedule(enabled=False)))
    assert problems(run, after("d", "a"), create=False) == [("/dependencies", golden)], "it keeps its schedules"
    with pytest.raises(Conflict) as refused:
        run.do(RemoveJob("b", stop_runs=True))
    assert str(refused.value) == golden
    run.do(PutJob(job("c"), create=False))
    run.do(RemoveJob("b"))
    assert list(run.state.lasting.jobs) == ["a", "c", "d"]


def test_a_dependency_that_is_added_later_counts_from_then_on() -> None:
    run = Chain(job("a"), job("b"), after("c", "a"))
    run.start("b")
    run.end("b")
    run.do(PutJob(after("c", "a", "b"), create=False), after_s=1)
    run.start("a")
    run.end("a")
    assert run.active() == [], "b succeeded before it mattered"
    run.start("b")
    run.end("b")
    assert run.active() == ["c"], "what a did counts still"


EVENTS = st.tuples(st.sampled_from(["start", "good", "bad", "stop", "crash"]), st.sampled_from(["a", "b", "c", "d"]))


@settings(max_examples=examples(150))
@given(st.lists(EVENTS, max_size=30))
def test_a_job_starts_by_itself_once_for_each_time_that_all_before_it_have_succeeded(
    events: list[tuple[str, str]],
) -> None:
    """Told by a second reading of the rule, over any history: what happened since the last end, in order."""
    before = {"c": {"a", "b"}, "d": {"c"}}
    run = Chain(job("a"), job("b"), after("c", "a", "b"), after("d", "c"))
    good: dict[str, set[str]] = {"c": set(), "d": set()}
    expected = dict.fromkeys("abcd", 0)
    active: dict[str, int] = dict.fromkeys("abcd", 0)

    def began(job_id: str) -> None:
        active[job_id] += 1
        expected[job_id] += 1
        for child in before:
            good[child].discard(job_id)

    def ended(job_id: str, *, well: bool) -> None:
        active[job_id] -= 1
        if job_id in good:
            good[job_id] = set()
        for child, needed in before.items():
            if job_id in needed:
                good[child] = good[child] | {job_id} if well and not active[child] else good[child] - {job_id}
                if well and good[child] == needed and not active[child]:
                    began(child)

    for kind, job_id in events:
        if kind == "start" and not active[job_id]:
            run.start(job_id)
            began(job_id)
        elif kind == "crash":
            run.crash()
        elif kind == "stop" and active[job_id]:
            run.do(StopRun(job_id, next(iter(run.job(job_id).runs))), after_s=1)
            ended(job_id, well=False)
        elif kind in ("good", "bad") and active[job_id]:
            run.end(job_id, "TASK_FINISHED" if kind == "good" else "TASK_FAILED")
            ended(job_id, well=kind == "good")
        assert {known.id: len(known.runs) for known in run.state.lasting.jobs.values()} == active
    for known in run.state.lasting.jobs.values():
        assert len(known.runs) + known.history.successes + known.history.failures == expected[known.id]


async def test_dependencies_over_http_are_metronomes(marathon: Marathon, golden: Golden) -> None:
    await marathon.call("POST", "/v1/jobs", job("a"))
    created = await marathon.call("POST", "/v1/jobs", after("b", "a"))
    assert (created.status, created.body["dependencies"]) == (201, [{"id": "a"}])
    assert (await marathon.get("/v1/jobs/b"))["dependencies"] == [{"id": "a"}]
    refused = await marathon.call("PUT", "/v1/jobs/a", after("a", "b"))
    assert (refused.status, refused.body["details"][0]["path"]) == (422, "/dependencies")
    gone = await marathon.call("DELETE", "/v1/jobs/a")
    assert (gone.status, gone.body["message"]) == (409, golden)
    run = await marathon.call("POST", "/v1/jobs/a/runs", {})
    assert run.status == 201
    (task,) = await marathon.launched()
    await marathon.say(task, "TASK_FINISHED")
    (started,) = await marathon.get("/v1/jobs/b/runs")
    (second,) = await marathon.launched()
    assert second.startswith(f"b_{started['id']}.instance-")
    await marathon.say(second, "TASK_FINISHED")
    shown = await marathon.get("/v1/jobs/b?embed=historySummary")
    assert shown["historySummary"]["successCount"] == 1
