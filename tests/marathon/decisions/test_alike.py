"""Of thousands that wait, few are held against an offer: what is decided is what comes of holding each against each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.decisions import updates, using
from mesos_gpu.marathon.decisions.launching import next_launch_s
from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.decisions.run_limits import RunLimits
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.state.actions import Action, Launch
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import (
    Event,
    Moment,
    Offered,
    PutApps,
    PutJob,
    RemoveApp,
    ResetDelay,
    StartRun,
    StopRun,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from tests.support.histories import examples
from tests.support.marathon import one_by_one as slow
from tests.support.marathon.builders import SETTINGS, T0, Run, app, job, offer, spec, status

APPS, RUNS = ("/a", "/b", "/c", "/d"), ("Ra", "Rb", "Rc", "Rd", "Re", "Rf")
ASKS: tuple[dict[str, Any], ...] = (
    {},
    {"cpus": 2},
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 1, "mem": 32.5},
    {"constraints": [["hostname", "UNIQUE"]]},
    {"constraints": [["rack", "LIKE", "r[12]"]]},
    {"portDefinitions": [{"port": 0}]},
)
JOBS = (job("one", gpus=1), job("other", gpus=1), job("large", gpus=2, cpus=2))
FEW = replace(SETTINGS, launch_tokens=3, launch_token_refresh_s=5.0, offer_window_s=0.2, max_instances_per_offer=3)
UNCOUNTED = replace(FEW, offer_statistics=False)

moves = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(APPS), st.integers(0, 4), st.sampled_from(ASKS)),
    st.tuples(st.just("remove"), st.sampled_from(APPS)),
    st.tuples(st.just("start"), st.sampled_from(JOBS), st.sampled_from(RUNS)),
    st.tuples(st.just("stop"), st.sampled_from(JOBS), st.sampled_from(RUNS)),
    st.tuples(
        st.just("offers"),
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.3, 2, 8]), st.integers(0, 3)), max_size=3),
    ),
    st.tuples(st.just("status"), st.integers(0, 9), st.sampled_from(["TASK_RUNNING", "TASK_FINISHED", "TASK_FAILED"])),
    st.tuples(st.just("reset"), st.sampled_from(APPS)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("again")),
)


def event(move: tuple[Any, ...], state: State, number: int) -> Event:
    match move:
        case "put", app_id, instances, asks:
            return PutApps((app(app_id, instances=instances, **asks),), f"d{number}", force=True)
        case "remove", app_id:
            return RemoveApp(app_id, f"d{number}", force=True)
        case "start", document, run_id:
            # The API gives each run an id of its own: the same one is never started beside itself.
            runs = state.jobs[document["id"]].runs if document["id"] in state.jobs else {}
            return Tick() if run_id in runs else StartRun(document["id"], run_id)
        case "stop", document, run_id:
            return StopRun(document["id"], run_id)
        case "offers", made:
            documents = [
                offer(
                    f"O{number}.{n}", agent=f"S{at}", host=f"h{at}", cpus=cpus, gpus=gpus, attributes={"rack": f"r{at}"}
                )
                for n, (at, cpus, gpus) in enumerate(made)
            ]
            return Offered(documents)
        case "status", place, word:
            tasks = sorted(i.task.id for i in state.instances.values() if i.task is not None)
            return status(tasks[place % len(tasks)], word) if tasks else Tick()
        case "reset", app_id:
            return ResetDelay(app_id)
        case ("again",):
            return Subscribed("F", "m:5050", again=True)
        case _:
            return Tick()


def decided(state: State, what: Event, moment: Moment, given: Settings = FEW) -> tuple[State, list[Action] | str]:
    try:
        return handle(state, what, moment, given)
    except MesosGpuError as error:
        return state, str(error)


def both(history: list[tuple[tuple[Any, ...], float]], given: Settings) -> Iterator[tuple[State, State, list[Moment]]]:
    """Decide about a history in both ways, which must decide the same; yield the states after each event."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft, "pick", lambda self: 7)  # how often it is asked is not what is compared
        fast = one = State()
        now_s = T0
        begin: list[Event] = [Subscribed("F", "m:5050", again=False), *(PutJob(document) for document in JOBS)]
        for number, (move, after_s) in enumerate([(None, 0.0)] * len(begin) + history):
            now_s += after_s
            what = begin[number] if move is None else event(move, fast, number)
            moments = [Moment(now_s, ids_from(str(UUID(int=number)))) for _ in range(2)]
            fast, actions = decided(fast, what, moments[0], given)
            with slow.one_by_one():
                one, expected = decided(one, what, moments[1], given)
            assert actions == expected
            yield fast, one, moments


@settings(max_examples=examples(120))
@given(st.lists(st.tuples(moves, st.sampled_from([0.0, 0.1, 1.0, 7.0])), min_size=4, max_size=40))
def test_decisions_are_those_of_trying_each_app_on_each_offer(history: list[tuple[tuple[Any, ...], float]]) -> None:
    for fast, one, moments in both(history, FEW):
        assert next_launch_s(fast, FEW, moments[0]) == slow.next_launch_s(one, FEW, moments[1])
        assert [fast.queue.get(key) for key in (*APPS, *RUNS)] == [one.queue.get(key) for key in (*APPS, *RUNS)]
        assert dict(fast.queue.items()) == dict(one.queue.items())
        assert [key for _, key in fast.waiting.order] == [
            i.id for i in sorted((one.instances[key] for key in one.waiting), key=lambda i: (i.since_s, i.id))
        ]


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(moves, st.sampled_from([0.0, 0.1, 1.0])), min_size=4, max_size=30), st.booleans())
def test_where_nobody_counts_offers_the_same_is_decided(
    history: list[tuple[tuple[Any, ...], float]], window: bool
) -> None:
    for _ in both(history, UNCOUNTED if window else replace(UNCOUNTED, offer_window_s=0.0)):
        pass  # that both decide the same is all there is to see


def test_what_a_policy_rounds_up_starts_all_the_same() -> None:
    run = Run(settings=UNCOUNTED)
    run.subscribe()
    run.put(app("/a", mem=32.5, gpus=1))
    offers = [offer(f"O{at}", agent=f"S{at}", host=f"h{at}", mem=32.75, gpus=1) for at in range(2)]
    launched = [action for action in run.do(Offered(offers)) if isinstance(action, Launch)]
    assert [action.offer_id for action in launched] == ["O0"]


def test_what_has_a_place_nowhere_is_not_held_against_each_offer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    match = using.match
    monkeypatch.setattr(
        using, "match", lambda spec, *rest, **named: held.append(spec.id) or match(spec, *rest, **named)
    )
    run = Run(settings=UNCOUNTED)
    run.subscribe()
    run.put(app("/a", gpus=2))
    run.do(Offered([offer(f"O{at}", agent=f"S{at}", host=f"h{at}", gpus=1) for at in range(9)]))
    assert held == []


def test_lines_that_ask_for_more_than_there_is_are_not_held_against_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    match = using.match
    monkeypatch.setattr(
        using, "match", lambda spec, *rest, **named: held.append(spec.id) or match(spec, *rest, **named)
    )
    run = Run(settings=replace(UNCOUNTED, offer_window_s=0.0))
    run.subscribe()
    for gpus in range(1, 6):
        run.do(PutJob(job(f"j{gpus}", gpus=gpus)))
        run.do(StartRun(f"j{gpus}", "R"), after_s=1.0)
    run.offer(gpus=2)
    assert held == ["/j1/R"]


def test_how_long_those_that_wait_may_run_is_not_asked() -> None:
    run = Run(settings=UNCOUNTED)
    run.subscribe()
    run.do(PutJob(job("j", gpus=1, maxRuntimeSeconds=60)))
    run.do(StartRun("j", "Rb"))
    run.offer(gpus=1)
    run.do(StartRun("j", "Rc"))
    limits = RunLimits(run.state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updates, "RunLimits", lambda draft: limits)
        run.do(Tick())
    assert limits == {"/j/Rb": 60}
    assert limits["/j/nobody"] is None


def test_one_of_those_that_ask_for_the_same_is_held_against_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    match = using.match
    monkeypatch.setattr(
        using, "match", lambda spec, *rest, **named: held.append(spec.id) or match(spec, *rest, **named)
    )
    run = Run()
    run.subscribe()
    run.do(PutJob(job("j", gpus=4)))
    for number in range(50):
        run.do(StartRun("j", f"R{number}"), after_s=1.0)
    run.offer(gpus=1)
    assert len(held) == 1
    assert [run.state.queue[f"/j/R{number}"].unused for number in range(50)] == [1] * 50


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"id": "/z", "cmd": "true", "env": {"A": "b"}, "instances": 3}, True),
        ({"cpus": 0.2}, False),
        ({"gpus": 1}, False),
        ({"acceptedResourceRoles": ["*"]}, False),
        ({"portDefinitions": [{"port": 8080}], "requirePorts": True}, False),
        ({"constraints": [["rack", "LIKE", "r1"]]}, False),
        ({"labels": {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"}}, False),
        ({"gpuShare": {"memGiB": 4}}, False),
        ({"env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "4"}}, False),
    ],
)
def test_alike_is_what_offers_are_asked_the_same_by(changes: dict[str, Any], same: bool) -> None:
    changes = dict(changes)
    assert (spec().alike == spec(changes.pop("id", "/a"), **changes).alike) is same


@pytest.mark.parametrize("operator", [["UNIQUE"], ["CLUSTER"], ["MAX_PER", "2"], ["GROUP_BY"]])
def test_what_depends_on_where_other_instances_are_is_like_no_other(operator: list[str]) -> None:
    assert spec(constraints=[["hostname", *operator]]).alike is None
    assert spec(constraints=[["rack", "CLUSTER", "r1"]]).alike is not None


def same_either_way(*events: tuple[Event | Callable[[State], Event], float]) -> State:
    """Have both ways decide about these, each so long after the one before; return the state."""
    fast = one = State()
    now_s = T0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft, "pick", lambda self: 7)
        for number, (what, after_s) in enumerate(((Subscribed("F", "m:5050", again=False), 0.0), *events)):
            now_s += after_s
            moments = [Moment(now_s, ids_from(str(UUID(int=number)))) for _ in range(2)]
            if callable(what):
                what = what(fast)
            fast, actions = decided(fast, what, moments[0])
            with slow.one_by_one():
                one, expected = decided(one, what, moments[1])
            assert actions == expected
    assert dict(fast.queue.items()) == dict(one.queue.items())
    return fast


def test_the_reasons_are_those_of_what_was_left_when_an_app_had_its_turn() -> None:
    apps = [("/a", {"gpus": 1}), ("/b", {"cpus": 3}), ("/c", {"gpus": 1})]
    asks = {"/a": {"gpus": 1, "cpus": 2}, "/b": {"cpus": 3}, "/c": {"gpus": 1, "cpus": 2}}
    puts = [(PutApps((app(app_id, **asks[app_id]),), f"d{app_id}"), 1.0) for app_id, _ in apps]
    state = same_either_way(*puts, (Offered([offer("O1", cpus=4, gpus=0)]), 1.0))
    reasons = [state.queue[app_id].last_offers["S0"].reasons[0].value for app_id in ("/a", "/c")]
    assert reasons == ["InsufficientGpus", "InsufficientCpus"]


def test_an_app_that_waits_out_its_backoff_is_no_reason_to_ask_for_offers() -> None:
    fails = {"backoffSeconds": 60, "maxLaunchDelaySeconds": 600}

    def put(app_id: str, **changes: Any) -> Event:
        return PutApps((app(app_id, **changes),), f"d{app_id}{changes.get('instances', 1)}", force=True)

    def failed(state: State) -> Event:
        (task_id,) = (i.task.id for i in state.instances_of("/a") if i.task is not None)
        return status(task_id, "TASK_FAILED")

    state = same_either_way(
        (put("/a", **fails), 1.0),
        (put("/b", cpus=99), 1.0),
        (Offered([offer("O1")]), 0.1),
        (failed, 1.0),
        (put("/a", instances=0, **fails), 1.0),
        (Tick(), 10.0),
        (put("/a", instances=2, **fails), 5.0),
        (Tick(), 10.0),
    )
    assert (len(state.waiting), len(state.asked_for), state.revived_s) == (3, 1, T0 + 2.0)
