"""Who is told of a GPU that is ill, and how a task that held it ends."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import events as ev
from mesos_gpu.mesos.shares.gpu_links import labelled_cards
from tests.support.agent.decided import acknowledge_all, connected, end, kinds, running, sent
from tests.support.agent.documents import at, key, run
from tests.support.agent.hosting import AWARE, ECHO, hosted, says

ILL = "GPU 0 (GPU-x) is unhealthy: XID 48"


def test_the_holder_of_an_ill_gpu_is_told_once() -> None:
    state = running()
    acknowledge_all(state)
    (status,) = sent(handle(state, ev.GpuIll(key(), ILL, kill=False), at(1.0)))
    assert (status["state"], status["message"]) == ("TASK_RUNNING", ILL)
    assert status["container_status"]["executor_pid"] == 42
    assert handle(state, ev.GpuIll(key(), ILL, kill=False), at(2.0)) == []
    worse = f"{ILL}; GPU 1 (GPU-y) is unhealthy: XID 79"
    assert kinds(handle(state, ev.GpuIll(key(), worse, kill=False), at(3.0))) == ["Log"], "it waits for its turn"


def test_a_task_that_has_to_end_for_its_gpu_fails_with_the_reason() -> None:
    state = running()
    acknowledge_all(state)
    actions = handle(state, ev.GpuIll(key(), ILL, kill=True), at(1.0))
    assert kinds(actions) == ["Log", "Kill"]
    assert actions[0].record["why"] == ILL  # type: ignore[union-attr]
    assert handle(state, ev.GpuIll(key(), ILL, kill=True), at(1.5)) == []
    (status,) = sent(end(state, exit_code=0))
    assert (status["state"], status["message"]) == ("TASK_FAILED", ILL)
    assert (status["source"], status["reason"]) == ("SOURCE_AGENT", "REASON_CONTAINER_LIMITATION")


def test_a_gpu_that_falls_ill_during_the_launch_ends_the_task_as_well() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.GpuIll(key(), ILL, kill=True), at())
    assert kinds(handle(state, ev.Launched(key(), 42), at())) == ["Kill"]
    end(state, signal=9)
    assert [s["state"] for s in acknowledge_all(state)] == ["TASK_STARTING", "TASK_FAILED"]


def test_after_a_restart_it_still_fails_for_its_gpu_although_nobody_saw_the_end() -> None:
    state = running()
    handle(state, ev.GpuIll(key(), ILL, kill=True), at())
    handle(state, ev.Vanished(key(), rebooted=False), at(1.0))
    assert acknowledge_all(state)[-1]["message"] == ILL


def test_nobody_is_told_of_a_gpu_when_the_task_is_over_ends_or_is_unknown() -> None:
    state = running()
    assert handle(state, ev.GpuIll(key("t2"), ILL, kill=True), at()) == []
    handle(state, ev.KillTask(key()), at())
    assert handle(state, ev.GpuIll(key(), ILL, kill=True), at()) == []
    end(state, signal=15)
    assert handle(state, ev.GpuIll(key(), ILL, kill=False), at()) == []
    assert acknowledge_all(state)[-1]["state"] == "TASK_KILLED"


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
