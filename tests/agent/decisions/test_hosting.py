"""Executors and their tasks in the agent's state, event by event; test_collecting.py has any order of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.agent.decisions.adopting import adopt_executor
from mesos_gpu.agent.decisions.executor_steps import nested_grace_s
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import Stage
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.ids import ContainerId
from tests.support.agent.documents import FRAMEWORK_ID, IDENTITY, at, key, new_state, run
from tests.support.agent.hosting import AWARE, ECHO, hosted, says


def sent(actions: list[act.Action]) -> list[str]:
    """Return the types of the events that go to executors."""
    return [action.event["type"] for action in actions if isinstance(action, act.ToExecutor)]


def told(actions: list[act.Action]) -> list[tuple[str, str, str | None]]:
    """Return what leaves for the master: task, state, reason."""
    return [
        (a.status["task_id"]["value"], a.status["state"], a.status.get("reason"))
        for a in actions
        if isinstance(a, Forward)
    ]


@pytest.fixture
def state() -> AgentState:
    fresh = new_state()
    handle(fresh, ev.Registered(), at())
    return fresh


def subscribed(state: AgentState, *tasks: dict[str, Any], group: bool = False) -> list[act.Action]:
    """Run tasks in a new executor that launches and subscribes; return what followed from the last step."""
    handle(state, run(*(tasks or (hosted("t1"),)), info=AWARE, group=group), at())
    handle(state, ev.Launched(ECHO, 42), at())
    return handle(state, ev.Subscribed(ECHO), at())


def test_the_executor_is_on_disk_before_it_is_launched_and_so_are_its_tasks(state: AgentState) -> None:
    actions = handle(state, run(hosted("t1", gpus=1), info=AWARE), at())
    kinds = [type(action) for action in actions]
    assert kinds == [act.SaveFramework, act.SaveExecutor, act.SaveTask, act.Launch]
    (launch,) = [action for action in actions if isinstance(action, act.Launch)]
    assert (launch.config.cpus_milli, launch.config.mem_bytes, launch.config.gpus) == (600, 96 << 20, 1)
    assert launch.config.environment["MESOS_EXECUTOR_ID"] == "echo"
    assert launch.config.environment["MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"] == "5secs"
    assert launch.config.environment["MESOS_CHECKPOINT"] == "1"
    assert launch.config.environment["MESOS_RECOVERY_TIMEOUT"] == "15mins"


@pytest.mark.parametrize(("kind", "told"), [("DEFAULT", "1"), ("CUSTOM", None)])
def test_the_default_executor_alone_is_told_how_the_agent_speaks_tls(kind: str, told: str | None) -> None:
    secure = replace(IDENTITY, default_executor=("/executor",), tls_environment={"LIBPROCESS_SSL_ENABLED": "1"})
    state = new_state(identity=secure)
    handle(state, ev.Registered(), at())
    actions = handle(state, run(hosted("t1", kind=kind), info=AWARE, group=kind == "DEFAULT"), at())
    (launch,) = [action for action in actions if isinstance(action, act.Launch)]
    assert launch.config.environment.get("LIBPROCESS_SSL_ENABLED") == told


def test_tasks_are_handed_over_once_it_has_subscribed(state: AgentState) -> None:
    actions = subscribed(state)
    assert [type(action) for action in actions] == [act.NoteRun, act.Welcome, act.ToExecutor]
    assert sent(actions) == ["LAUNCH"]
    task_now = state.frameworks.task(key())
    assert task_now is not None
    assert task_now.phase is Phase.RUNNING


def test_a_later_task_waits_until_the_container_is_large_enough(state: AgentState) -> None:
    subscribed(state)
    actions = handle(state, run(hosted("t2", gpus=2), info=AWARE, launch_executor=False), at())
    (resize,) = [action for action in actions if isinstance(action, act.Resize)]
    assert (resize.size.cpus_milli, resize.size.gpus) == (1100, 2)
    assert sent(actions) == []
    assert sent(handle(state, ev.Resized(ECHO, resize.container_id, resize.round), at())) == ["LAUNCH"]


def test_a_task_for_which_the_container_cannot_grow_fails_alone(state: AgentState) -> None:
    subscribed(state)
    handle(state, run(hosted("t2", gpus=9), info=AWARE, launch_executor=False), at())
    actions = handle(state, ev.Resized(ECHO, "c0", 1, "Requested 9 gpus but only 4 available"), at())
    assert told(actions) == [("t2", "TASK_FAILED", "REASON_CONTAINER_UPDATE_FAILED")]
    executor = state.frameworks.executor(ECHO)
    assert executor is not None
    assert executor.stage is Stage.RUNNING


def test_an_update_is_logged_forwarded_and_acknowledged_in_that_order(state: AgentState) -> None:
    subscribed(state)
    actions = handle(state, says("t1", "TASK_RUNNING"), at())
    assert [type(action) for action in actions] == [act.Log, Forward, act.ToExecutor]
    status = actions[1].status  # type: ignore[union-attr]
    assert status["container_status"]["executor_pid"] == 42
    assert status["agent_id"] == {"value": state.identity.agent_id}
    assert "executor_id" not in status  # the executor named none


def test_a_repeated_update_is_only_acknowledged_again(state: AgentState) -> None:
    subscribed(state)
    update = says("t1", "TASK_RUNNING")
    handle(state, update, at())
    assert sent(handle(state, update, at())) == ["ACKNOWLEDGED"]
    assert told(handle(state, update, at())) == []


def test_a_terminal_update_makes_the_container_smaller(state: AgentState) -> None:
    subscribed(state, hosted("t1", gpus=1))
    actions = handle(state, says("t1", "TASK_FINISHED"), at())
    (resize,) = [action for action in actions if isinstance(action, act.Resize)]
    assert (resize.size.cpus_milli, resize.size.gpus) == (100, 0)


def test_a_kill_goes_to_the_executor_with_the_policy_of_the_call(state: AgentState) -> None:
    subscribed(state)
    (_, action) = handle(state, ev.KillTask(key(), 2.0), at())
    assert isinstance(action, act.ToExecutor)
    kill = {"task_id": {"value": "t1"}, "kill_policy": {"grace_period": {"nanoseconds": 2_000_000_000}}}
    assert action.event == {"type": "KILL", "kill": kill}
    (again,) = [a for a in handle(state, ev.KillTask(key()), at()) if isinstance(a, act.ToExecutor)]
    assert again.event["kill"] == {"task_id": {"value": "t1"}}


def restarted_with(task: dict[str, Any]) -> AgentState:
    """Return what an agent has after a restart, that had sent a task to an executor or was about to."""
    before = new_state()
    handle(before, ev.Registered(), at())
    handle(before, run(task, info=AWARE), at())
    executor, task_before = before.frameworks.executor(ECHO), before.frameworks.task(key())
    assert executor is not None
    assert task_before is not None
    executor.queue.clear()  # which is not on disk
    state = new_state()
    handle(state, ev.Registered(), at())
    adopt_executor(state, before.frameworks.active[FRAMEWORK_ID], executor, [(task_before, [])], at())
    return state


def test_an_executor_that_got_nothing_from_the_agent_before_is_ended() -> None:
    actions = handle(restarted_with(hosted("t1", gpus=1)), ev.Subscribed(ECHO), at())
    assert told(actions) == [("t1", "TASK_DROPPED", "REASON_AGENT_RESTARTED")]
    assert sent(actions) == ["SHUTDOWN"]


def test_an_executor_that_has_its_task_stays() -> None:
    state = restarted_with(hosted("t1"))
    assert sent(handle(state, ev.Subscribed(ECHO, tasks=("t1",)), at())) == []


def test_a_group_that_was_not_handed_over_is_killed_whole_and_its_executor_with_it() -> None:
    state = new_state(
        identity=ev.Identity("a-S0", "slave(1)@127.0.0.1:1", "127.0.0.1", 1, "/w", default_executor=("x",))
    )
    handle(state, ev.Registered(), at())
    tasks = (hosted("a", kind="DEFAULT"), hosted("b", kind="DEFAULT"))
    handle(state, run(*tasks, info=AWARE, group=True), at())
    actions = handle(state, ev.KillTask(key("b")), at())
    reason = "REASON_TASK_KILLED_DURING_LAUNCH"
    assert told(actions) == [("a", "TASK_KILLED", reason), ("b", "TASK_KILLED", reason)]
    assert any(isinstance(action, act.Kill) for action in actions)


def test_an_executor_that_does_not_subscribe_in_time_is_ended_and_its_task_told(state: AgentState) -> None:
    handle(state, run(hosted("t1"), info=AWARE), at())
    handle(state, ev.Launched(ECHO, 42), at(1.0))
    assert state.next_due_s == 61.0
    actions = handle(state, ev.Tick(), at(61.0))
    assert [type(action) for action in actions] == [act.Kill]
    actions = handle(state, ev.Ended(ECHO, Termination(signal=9)), at(61.0))
    assert told(actions) == [("t1", "TASK_FAILED", "REASON_EXECUTOR_REGISTRATION_TIMEOUT")]
    assert [a.status for a in actions if isinstance(a, act.ExecutorGone)] == [9]


def test_a_shutdown_is_a_word_first_and_the_end_of_the_container_after_the_grace(state: AgentState) -> None:
    subscribed(state)
    assert sent(handle(state, ev.ShutdownExecutor(ECHO), at(10.0))) == ["SHUTDOWN"]
    assert state.next_due_s == 15.0
    (kill,) = handle(state, ev.Tick(), at(15.0))
    assert kill == act.Kill(ECHO, "c0", 0.0)
    dropped = handle(state, run(hosted("t2"), info=AWARE), at(15.0))
    assert told(dropped) == [("t2", "TASK_DROPPED", "REASON_EXECUTOR_TERMINATED")]


def test_the_end_of_an_executor_is_the_end_of_its_tasks_and_told_with_its_status(state: AgentState) -> None:
    subscribed(state)
    actions = handle(state, ev.Ended(ECHO, Termination(exit_code=3)), at())
    assert told(actions) == [("t1", "TASK_FAILED", "REASON_EXECUTOR_TERMINATED")]
    assert [a for a in actions if isinstance(a, act.ExecutorGone)] == [act.ExecutorGone(*ECHO, status=3 << 8)]
    assert state.frameworks.executor(ECHO) is not None  # until its task's end is acknowledged
    uuid = next(a.status["uuid"] for a in actions if isinstance(a, Forward))
    handle(state, ev.Acknowledged(key(), uuid), at())
    assert state.frameworks.executor(ECHO) is None
    assert state.frameworks.active == {}
    assert len(state.frameworks.completed[FRAMEWORK_ID].completed) == 1


def test_a_framework_that_is_gone_takes_its_executor_along_in_silence(state: AgentState) -> None:
    subscribed(state)
    actions = handle(state, ev.ShutdownFramework(FRAMEWORK_ID), at())
    assert sent(actions) == ["SHUTDOWN"]
    actions = handle(state, ev.Ended(ECHO, Termination(exit_code=0)), at())
    assert told(actions) == []
    assert not any(isinstance(action, act.ExecutorGone) for action in actions)
    assert state.frameworks.active == {}


def test_an_executor_that_the_master_does_not_ask_to_launch_and_is_gone_cannot_run_a_task(state: AgentState) -> None:
    actions = handle(state, run(hosted("t1"), info=AWARE, launch_executor=False), at())
    assert told(actions) == [("t1", "TASK_DROPPED", "REASON_EXECUTOR_TERMINATED")]


def test_a_subscription_to_an_ending_executor_is_answered_with_shutdown(state: AgentState) -> None:
    subscribed(state)
    handle(state, ev.ShutdownExecutor(ECHO), at())
    actions = handle(state, ev.Subscribed(ECHO), at())
    assert [type(action) for action in actions] == [act.ToExecutor, act.CloseStream]
    assert sent(actions) == ["SHUTDOWN"]


def test_while_its_stream_is_broken_new_tasks_wait_and_kills_are_said_again(state: AgentState) -> None:
    subscribed(state)
    handle(state, says("t1", "TASK_RUNNING"), at())
    handle(state, ev.StreamClosed(ECHO), at())
    handle(state, run(hosted("t2"), info=AWARE, launch_executor=False), at())
    handle(state, ev.Resized(ECHO, "c0", 1), at())
    handle(state, ev.KillTask(key()), at())
    assert sent(handle(state, ev.Subscribed(ECHO), at())) == ["KILL", "LAUNCH"]


def test_draining_gives_kills_no_more_than_its_grace_and_its_reason(state: AgentState) -> None:
    subscribed(state)
    actions = handle(state, ev.Drain(1.0, gone=False), at())
    (kill,) = [action for action in actions if isinstance(action, act.ToExecutor)]
    assert kill.event["kill"]["kill_policy"] == {"grace_period": {"nanoseconds": 1_000_000_000}}
    actions = handle(state, says("t1", "TASK_KILLED"), at())
    assert told(actions) == [("t1", "TASK_KILLED", "REASON_AGENT_DRAINING")]


def test_a_nested_container_has_the_longest_grace_period_that_its_executor_gives_a_task(state: AgentState) -> None:
    own = {"grace_period": {"nanoseconds": 20 * 10**9}}
    subscribed(state, hosted("t1"), {**hosted("t2"), "kill_policy": own})
    tasks = state.frameworks.tasks()
    (container_id,) = {task.container_id for task in tasks}
    assert container_id is not None
    assert nested_grace_s(tasks, container_id) == 20.0
    assert nested_grace_s(tasks[:1], container_id) == 3.0
    assert nested_grace_s(tasks, ContainerId("another")) is None
    handle(state, ev.KillTask(key("t1"), 40.0), at())
    assert nested_grace_s(state.frameworks.tasks(), container_id) == 40.0
