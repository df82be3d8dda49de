"""What waits in order is decided in a short way, as if all were looked at anew each time.

Of those that ask for the same one is held against the offers; an offer that comes again is not read again, and a task
that runs on is what it was.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.decisions import using
from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.actions import Action
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Event, Moment, Offered, PutApps, PutJob, StartRun, Subscribed, Tick
from mesos_gpu.marathon.state.seen import Seen
from mesos_gpu.marathon.state.state import State
from tests.support.histories import examples
from tests.support.marathon.builders import SETTINGS, T0, Run, app, job, offer, status

ALL = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)
ASKS: tuple[dict[str, Any], ...] = (
    {"priority": 1},
    {"gpus": 1, "priority": 2},
    {"gpus": 1, "gang": {"size": 2}},
    {"gpus": 2, "gang": {"size": 2, "onePerHost": False}},
    {"gpus": 1, "preemptible": True},
    {"gpus": 1, "priority": 1, "maxRuntimeSeconds": 30},
    {"gpus": 1, "constraints": [["rack", "LIKE", "r[12]"]]},
    {"gpus": 1, "constraints": [["hostname", "UNIQUE"]]},
)
JOBS = job("one", gpus=1), job("other", gpus=1, priority=1)
moves = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcde"), st.sampled_from([2, 4]), st.sampled_from(ASKS)),
    st.tuples(st.just("start"), st.sampled_from(JOBS), st.sampled_from("abcd")),
    st.tuples(st.just("offers"), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3)),
    st.tuples(st.just("status"), st.integers(0, 9), st.sampled_from(["TASK_RUNNING", "TASK_FINISHED"])),
    st.just(("tick",)),
)


def event(move: Any, state: State, number: int) -> Event:
    match move:
        case "put", name, instances, asks:
            return PutApps((app(f"/{name}", instances=instances, **asks),), f"d{number}", force=True)
        case "start", document, name:
            return StartRun(document["id"], f"R{name}")
        case "offers", made:
            at_hand = {at: gpus for at, gpus in made}
            return Offered(
                [
                    offer(f"O{number}.{at}", agent=f"S{at}", host=f"h{at}", gpus=gpus, attributes={"rack": f"r{at}"})
                    for at, gpus in at_hand.items()
                ]
            )
        case "status", place, word:
            tasks = sorted(i.task.id for i in state.instances.values() if i.task is not None)
            return status(tasks[place % len(tasks)], word) if tasks else Tick()
        case _:
            return Tick()


def decided(state: State, what: Event, now_s: float, number: int) -> tuple[State, list[Action] | str]:
    try:
        return handle(state, what, Moment(now_s, ids_of(number)), ALL)
    except MesosGpuError as error:
        return state, str(error)


def ids_of(number: int) -> Any:
    return ids_from(str(UUID(int=number)))


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(moves, st.sampled_from([0.0, 1.0, 4.0, 40.0])), min_size=4, max_size=30))
def test_decisions_are_those_of_holding_each_against_all_offers(history: list[tuple[Any, float]]) -> None:
    begin: list[Event] = [Subscribed("F", "m:5050", again=False), *(PutJob(document) for document in JOBS)]
    fast = one = State()
    now_s = T0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft, "pick", lambda self: 7)  # how often it is asked is not what is compared
        for number, (move, after_s) in enumerate([(None, 0.0)] * len(begin) + history):
            now_s += after_s
            what = begin[number] if move is None else event(move, fast, number)
            fast, actions = decided(fast, what, now_s, number)
            with pytest.MonkeyPatch.context() as alone:
                alone.setattr(RunSpec, "alike", None)
                alone.setattr(Offer, "again", lambda self, document: None)
                alone.setattr(Seen, "of", lambda self, instance, spec, demand: False)
                one, expected = decided(one, what, now_s, number)
            assert actions == expected
            assert fast.places == one.places
            assert dict(fast.queue.items()) == dict(one.queue.items())


def test_one_of_those_that_ask_for_the_same_is_held_against_the_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    match = using.match
    monkeypatch.setattr(
        using, "match", lambda spec, *rest, **named: held.append(spec.id) or match(spec, *rest, **named)
    )
    run = Run(settings=ALL)
    run.subscribe()
    run.do(PutJob(job("j", gpus=4, priority=1)))
    for number in range(50):
        run.do(StartRun("j", f"R{number}"), after_s=1.0)
    held.clear()
    run.do(Offered([offer(f"O{at}", agent=f"S{at}", host=f"h{at}", gpus=1) for at in range(3)]))
    assert len(held) == 3
    assert [run.state.queue[f"/j/R{number}"].unused for number in range(50)] == [3] * 50
    run.do(Tick(), after_s=3.0)
    run.do(Tick(), after_s=3.0)
    assert len(held) == 3, "what was given back is as it was"
    run.do(Offered([offer(f"P{at}", agent=f"S{at}", host=f"h{at}", gpus=at) for at in range(3)]), after_s=1.0)
    assert len(held) == 5, "one comes as it was"
