"""Schedulers are told which whole GPUs a task has: once, when it runs."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import events as ev
from mesos_gpu.mesos.shares.gpu_links import labelled_cards
from tests.support.agent.decided import acknowledge_all, connected, end, sent
from tests.support.agent.documents import at, key, run
from tests.support.agent.hosting import AWARE, ECHO, hosted, says


def test_the_first_running_says_which_cards_and_no_other_status_does() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.Launched(key(), 42, cards=(3, 1)), at())
    handle(state, ev.GpuIll(key(), "GPU 1 is unhealthy", kill=False), at())
    end(state, exit_code=0)
    told = [(status["state"], labelled_cards(status)) for status in acknowledge_all(state)]
    assert told == [("TASK_STARTING", ()), ("TASK_RUNNING", (1, 3)), ("TASK_RUNNING", ()), ("TASK_FINISHED", ())]


def test_a_task_without_gpus_has_no_such_label() -> None:
    state = connected()
    sent(handle(state, run(), at()))
    handle(state, ev.Launched(key(), 42), at())
    assert all("labels" not in status for status in acknowledge_all(state))


def test_the_first_running_of_each_task_of_an_executor_says_which_cards_they_share() -> None:
    state = connected()
    tasks = hosted("t1", gpus=1), hosted("t2", gpus=1)
    handle(state, run(*tasks, info=AWARE), at())
    handle(state, ev.Launched(ECHO, 42, cards=(0, 1)), at())
    handle(state, ev.Subscribed(ECHO), at())
    for task_id, told in (("t1", "TASK_STARTING"), ("t1", "TASK_RUNNING"), ("t2", "TASK_RUNNING")):
        handle(state, replace(says(task_id, told), cards=(0, 1)), at())
    handle(state, replace(says("t1", "TASK_RUNNING", healthy=True), cards=(0, 1)), at())
    one, two = (
        [(status["state"], labelled_cards(status)) for status in acknowledge_all(state, task_id)]
        for task_id in ("t1", "t2")
    )
    assert one == [("TASK_STARTING", ()), ("TASK_RUNNING", (0, 1)), ("TASK_RUNNING", ())]
    assert two == [("TASK_RUNNING", (0, 1))]


def test_it_is_told_too_where_an_executor_says_it_again_to_an_agent_that_was_away() -> None:
    state = connected()
    handle(state, run(hosted("t1", gpus=1), info=AWARE), at())
    handle(state, ev.Launched(ECHO, 42), at())
    said = says("t1", "TASK_RUNNING")
    handle(state, ev.Subscribed(ECHO, ("t1",), (said.status,), cards=(2,)), at())  # type: ignore[arg-type]
    assert [labelled_cards(status) for status in acknowledge_all(state)] == [(2,)]
