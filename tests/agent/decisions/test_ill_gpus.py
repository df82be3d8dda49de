"""Who is told of a GPU that is ill, and how a task that held it ends."""

from __future__ import annotations

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import events as ev
from tests.support.agent.decided import acknowledge_all, connected, end, kinds, running, sent
from tests.support.agent.documents import at, key, run

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
