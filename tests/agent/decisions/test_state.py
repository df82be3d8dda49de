"""The agent's decisions: events in, actions out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.tasks import NEXT_PHASE, Cause, IllegalTransition, Phase, next_phase
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from tests.support.agent.documents import (
    AGENT_ID,
    ALL_CAPABILITIES,
    FRAMEWORK_ID,
    at,
    framework,
    key,
    new_state,
    run,
    task,
)

NANO = 1_000_000_000


def sent(actions: list[act.Action]) -> list[dict[str, Any]]:
    return [action.status for action in actions if isinstance(action, (Forward, act.SendLoose))]


def kinds(actions: list[act.Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def acknowledge_all(state: AgentState, task_id: str = "t1", mono_s: float = 0.0) -> list[dict[str, Any]]:
    """Acknowledge until nothing is outstanding; return what was outstanding, in order."""
    seen = []
    while pending := state.streams.pending(key(task_id)):
        seen.append(pending[0])
        handle(state, ev.Acknowledged(key(task_id), pending[0]["uuid"]), at(mono_s))
    return seen


def connected() -> AgentState:
    state = new_state()
    handle(state, ev.Registered(), at())
    return state


def running(info: dict[str, Any] | None = None, *tasks: dict[str, Any]) -> AgentState:
    state = connected()
    handle(state, run(*(tasks or (task(),)), info=info), at())
    for document in tasks or (task(),):
        handle(state, ev.Launched(key(document["task_id"]["value"]), 42), at())
    return state


def end(state: AgentState, **ending: Any) -> list[act.Action]:
    return handle(state, ev.Ended(key(), Termination(**ending)), at(1.0))


@pytest.mark.parametrize(("phase", "cause"), list(product(Phase, Cause)))
def test_every_pair_of_phase_and_cause_is_in_the_table_or_refused(phase: Phase, cause: Cause) -> None:
    if (phase, cause) in NEXT_PHASE:
        assert isinstance(next_phase(phase, cause), Phase)
    else:
        with pytest.raises(IllegalTransition, match="was told"):
            next_phase(phase, cause)


def test_a_task_is_written_down_before_it_is_launched_and_an_update_before_it_is_sent() -> None:
    actions = handle(connected(), run(), at())
    assert kinds(actions) == ["SaveFramework", "SaveTask", "Launch", "Log", "Forward"]
    (status,) = sent(actions)
    assert status["state"] == "TASK_STARTING"
    assert status["source"] == "SOURCE_EXECUTOR"
    assert status["executor_id"] == {"value": "t1"}
    assert status["container_status"] == {
        "container_id": {"value": "c0"},
        "network_infos": [{"ip_addresses": [{"ip_address": "127.0.0.1"}]}],
    }


def test_a_framework_that_did_not_change_is_not_written_again() -> None:
    state = running()
    assert "SaveFramework" not in kinds(handle(state, run(task("t2")), at()))


def test_nothing_is_written_for_a_framework_that_does_not_checkpoint() -> None:
    actions = handle(connected(), run(info=framework(checkpoint=False)), at())
    assert kinds(actions) == ["Launch", "Forward"]


def test_running_follows_once_starting_is_acknowledged() -> None:
    state = connected()
    (starting,) = sent(handle(state, run(), at()))
    assert sent(handle(state, ev.Launched(key(), 42), at())) == []
    (status,) = sent(handle(state, ev.Acknowledged(key(), starting["uuid"]), at()))
    assert status["state"] == "TASK_RUNNING"
    assert status["container_status"]["executor_pid"] == 42


@pytest.mark.parametrize(
    ("ending", "state_name", "message"),
    [
        ({"exit_code": 0}, "TASK_FINISHED", "Command exited with status 0"),
        ({"exit_code": 7}, "TASK_FAILED", "Command exited with status 7"),
        ({"signal": 9}, "TASK_FAILED", "Command terminated with signal Killed"),
        ({"signal": 15}, "TASK_FAILED", "Command terminated with signal Terminated"),
    ],
)
def test_how_a_command_ends_is_told_in_the_words_of_mesos(
    ending: dict[str, Any], state_name: str, message: str
) -> None:
    state = running()
    end(state, **ending)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["message"], last["source"]) == (state_name, message, "SOURCE_EXECUTOR")
    assert "reason" not in last


def test_running_out_of_memory_names_the_limit() -> None:
    state = running()
    end(state, signal=9, oom=True, mem_limit_bytes=96 << 20)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["source"], last["reason"]) == (
        "TASK_FAILED",
        "SOURCE_AGENT",
        "REASON_CONTAINER_LIMITATION_MEMORY",
    )
    assert last["message"].startswith("Memory limit exceeded: Requested: 96MB")
    assert last["limitation"] == {"resources": [{"name": "mem", "type": "SCALAR", "scalar": {"value": 96.0}}]}
    assert "container_status" not in last


def test_an_end_that_nobody_saw_is_never_a_success() -> None:
    state = running()
    end(state)
    assert acknowledge_all(state)[-1]["state"] == "TASK_FAILED"


def test_a_task_is_over_only_when_its_last_update_is_acknowledged() -> None:
    state = running()
    actions = end(state, exit_code=0)
    assert act.Forget("c0") in actions
    assert state.frameworks.task(key()) is not None
    last = state.streams.pending(key())[-1]
    acknowledge_all(state)
    assert state.frameworks.task(key()) is None
    assert state.frameworks.active == {}
    assert next(iter(state.frameworks.completed[FRAMEWORK_ID].completed)).statuses[-1] == last


def test_the_terminal_acknowledgement_closes_the_run_on_disk() -> None:
    state = running()
    end(state, exit_code=0)
    closing = []
    while pending := state.streams.pending(key()):
        closing = handle(state, ev.Acknowledged(key(), pending[0]["uuid"]), at())
    assert kinds(closing) == ["Log", "Close", "Discard", "Discard"]
    around = f"slaves/{AGENT_ID}/frameworks/{FRAMEWORK_ID}"
    assert [action.paths for action in closing if isinstance(action, act.Discard)] == [
        (f"{around}/executors/t1/runs/c0", f"{around}/executors/t1"),
        (around,),
    ]


def test_a_kill_asks_nicely_for_three_seconds_and_says_killing_where_that_is_known() -> None:
    state = running(framework(*ALL_CAPABILITIES))
    actions = handle(state, ev.KillTask(key()), at(5.0))
    assert [a for a in actions if isinstance(a, act.Kill)] == [act.Kill(key(), "c0", 3.0)]
    end(state, signal=15)
    assert [s["state"] for s in acknowledge_all(state)] == [
        "TASK_STARTING",
        "TASK_RUNNING",
        "TASK_KILLING",
        "TASK_KILLED",
    ]


def test_a_framework_without_the_capability_is_not_told_of_killing() -> None:
    state = running()
    handle(state, ev.KillTask(key()), at())
    end(state, exit_code=0)
    states = [s["state"] for s in acknowledge_all(state)]
    assert states == ["TASK_STARTING", "TASK_RUNNING", "TASK_KILLED"]


def test_the_grace_is_the_messages_else_the_tasks_else_three_seconds() -> None:
    policy = {"grace_period": {"nanoseconds": 20 * NANO}}
    for own, asked, expected in [(None, None, 3.0), (policy, None, 20.0), (policy, 7.0, 7.0)]:
        more: dict[str, Any] = {} if own is None else {"kill_policy": own}
        state = running(None, task(**more))
        kills = [a for a in handle(state, ev.KillTask(key(), asked), at()) if isinstance(a, act.Kill)]
        assert [kill.grace_s for kill in kills] == [expected]


def test_killing_again_can_only_shorten_the_grace() -> None:
    state = running()
    handle(state, ev.KillTask(key(), 10.0), at(0.0))
    assert [a for a in handle(state, ev.KillTask(key(), 60.0), at(1.0)) if isinstance(a, act.Kill)] == []
    kills = [a for a in handle(state, ev.KillTask(key(), 2.0), at(1.0)) if isinstance(a, act.Kill)]
    assert [kill.grace_s for kill in kills] == [2.0]


def test_a_kill_before_the_container_runs_ends_it_as_soon_as_it_does() -> None:
    state = connected()
    handle(state, run(), at())
    assert not [a for a in handle(state, ev.KillTask(key()), at()) if isinstance(a, act.Kill)]
    assert handle(state, ev.Launched(key(), 42), at()) == [act.Kill(key(), "c0", 0.0)]
    end(state, signal=9)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_KILLED", "REASON_TASK_KILLED_DURING_LAUNCH")


IN_IMAGE = {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}}}}


def test_how_far_a_pull_is_is_told_while_the_task_is_launched_and_wanted() -> None:
    state = connected()
    handle(state, run(task(container=IN_IMAGE)), at())
    handle(state, ev.Pulling(key(), "downloading"), at())
    handle(state, ev.KillTask(key()), at())
    assert handle(state, ev.Pulling(key(), "extracting"), at()) == []
    handle(state, ev.LaunchFailed(key(), "ended while its image was pulled"), at())
    said = [(update["state"], update.get("message")) for update in acknowledge_all(state)]
    assert said[:2] == [("TASK_STARTING", None), ("TASK_STARTING", "downloading")]
    assert [state for state, _ in said[2:]] == ["TASK_KILLED"]
    assert handle(state, ev.Pulling(key(), "late"), at()) == []


def test_a_kill_of_a_task_that_may_be_waiting_for_its_image_does_not_wait_for_it() -> None:
    state = connected()
    handle(state, run(task(container=IN_IMAGE)), at())
    assert act.Kill(key(), "c0", 0.0) in handle(state, ev.KillTask(key()), at())
    assert not [a for a in handle(state, ev.KillTask(key()), at()) if isinstance(a, act.Kill)]


def test_a_kill_of_a_task_whose_launch_then_fails_is_a_kill() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.KillTask(key()), at())
    handle(state, ev.LaunchFailed(key(), "no"), at())
    assert acknowledge_all(state)[-1]["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"


@pytest.mark.parametrize(("aware", "expected"), [(True, "TASK_DROPPED"), (False, "TASK_LOST")])
def test_a_kill_of_an_unknown_task_of_a_known_framework_is_answered(aware: bool, expected: str) -> None:
    state = running(framework(*(["PARTITION_AWARE"] if aware else [])))
    (status,) = sent(handle(state, ev.KillTask(key("other")), at()))
    assert status["state"] == expected


def test_a_kill_of_an_unknown_framework_or_an_ended_task_does_nothing() -> None:
    state = running()
    assert handle(state, ev.KillTask(key("t1", "unknown")), at()) == []
    end(state, exit_code=0)
    assert handle(state, ev.KillTask(key()), at()) == []


def test_a_launch_that_fails_tells_why() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.LaunchFailed(key(), "Requested 2 gpus but only 1 available"), at())
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["source"], last["reason"], last["message"]) == (
        "TASK_FAILED",
        "SOURCE_AGENT",
        "REASON_CONTAINER_LAUNCH_FAILED",
        "Failed to launch container: Requested 2 gpus but only 1 available",
    )


@pytest.mark.parametrize(
    "more",
    [
        {"command": {"value": "x", "uris": [{"value": "hdfs://namenode/x"}]}},
        {"command": {"shell": False}},
        {"container": {"type": "DOCKER", "docker": {"image": "nvidia/cuda"}}},
        {"container": {"type": "MESOS", "volumes": [{"mode": "RW", "container_path": "x"}]}},
        {"health_check": {"type": "COMMAND"}},
        {"container": {"type": "MESOS", "linux_info": {"share_pid_namespace": True}}},
    ],
)
def test_what_cannot_run_here_yet_fails_with_words_and_without_a_container(more: dict[str, Any]) -> None:
    actions = handle(connected(), run(task(**more)), at())
    assert kinds(actions) == ["SaveFramework", "Forward"]
    (status,) = sent(actions)
    assert status["state"] == "TASK_FAILED"
    assert status["message"].startswith("Failed to launch container: ")


def test_a_custom_executor_is_refused_and_the_master_told_that_it_is_not_there() -> None:
    state = connected()
    custom = task(executor={"executor_id": {"value": "e"}})
    del custom["command"]
    actions = handle(state, run(custom), at())
    (status,) = sent(actions)
    assert (status["state"], status["executor_id"]) == ("TASK_FAILED", {"value": "e"})
    assert "ExecutorGone" in kinds(actions)


def test_an_offer_of_an_earlier_agent_process_is_dropped() -> None:
    old = ev.RunTask(framework("PARTITION_AWARE"), (task(), task("t2")), "b2xk")
    statuses = sent(handle(connected(), old, at()))
    assert [(s["state"], s["reason"]) for s in statuses] == [("TASK_DROPPED", "REASON_INVALID_OFFERS")] * 2


def test_a_task_id_that_is_a_path_is_an_error_and_touches_nothing() -> None:
    actions = handle(connected(), run(task("../../etc")), at())
    assert [s["state"] for s in sent(actions)] == ["TASK_ERROR"]
    assert kinds(actions) == ["SaveFramework", "Forward"]


def test_a_task_that_runs_already_is_not_launched_twice() -> None:
    assert kinds(handle(running(), run(), at())) == []


@pytest.mark.parametrize("ending", [ev.ShutdownFramework(FRAMEWORK_ID), ev.ShutdownAgent("bye")])
def test_a_master_that_tells_of_a_framework_whose_tasks_end_revives_nothing(ending: ev.Event) -> None:
    # An agent that leaves while it registers again is told of its frameworks when their tasks have not ended yet.
    state = running()
    handle(state, ending, at())
    assert handle(state, ev.UpdateFramework(FRAMEWORK_ID, framework(name="renamed")), at()) == []
    actions = end(state, signal=9)
    assert not state.frameworks.active
    assert ("Stop" in kinds(actions)) == isinstance(ending, ev.ShutdownAgent)


def test_a_framework_shut_down_is_killed_and_nothing_is_said_of_it() -> None:
    state = running(None, task(), task("t2"))
    actions = handle(state, ev.ShutdownFramework(FRAMEWORK_ID), at())
    assert [a.grace_s for a in actions if isinstance(a, act.Kill)] == [3.0, 3.0]
    for task_id in ("t1", "t2"):
        actions = handle(state, ev.Ended(key(task_id), Termination(signal=15)), at())
        assert sent(actions) == []
    assert state.frameworks.active == {}
    assert state.streams.next_due_s is None


def test_a_task_may_only_run_for_so_long() -> None:
    state = running(None, task(max_completion_time={"nanoseconds": 30 * NANO}))
    assert state.next_due_s is not None
    acknowledge_all(state)
    assert state.next_due_s == 30.0
    assert handle(state, ev.Tick(), at(29.9)) == []
    kills = [a for a in handle(state, ev.Tick(), at(30.0)) if isinstance(a, act.Kill)]
    assert [kill.grace_s for kill in kills] == [0.05]
    end(state, signal=9)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_FAILED", "REASON_MAX_COMPLETION_TIME_REACHED")


def test_draining_kills_with_a_capped_grace_and_takes_no_more_tasks() -> None:
    state = running(framework(*ALL_CAPABILITIES), task(kill_policy={"grace_period": {"nanoseconds": 60 * NANO}}))
    actions = handle(state, ev.Drain(10.0, False), at())
    assert [a.grace_s for a in actions if isinstance(a, act.Kill)] == [10.0]
    (refused,) = sent(handle(state, run(task("t2"), info=framework(*ALL_CAPABILITIES)), at()))
    assert (refused["state"], refused["reason"]) == ("TASK_DROPPED", "REASON_AGENT_DRAINING")
    end(state, signal=15)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_KILLED", "REASON_AGENT_DRAINING")
    acknowledge_all(state, "t2")
    assert state.departure.drain is None


def test_sent_away_the_agent_stops_when_everything_is_killed() -> None:
    state = running()
    assert "Stop" not in kinds(handle(state, ev.ShutdownAgent("gone"), at()))
    assert kinds(end(state, signal=15)) == ["Close", "Discard", "Forget", "Discard", "Stop"]
    assert handle(state, run(task("t2")), at()) == []


def test_sent_away_with_nothing_to_kill_the_agent_stops_at_once() -> None:
    assert handle(connected(), ev.ShutdownAgent("gone"), at()) == [act.Stop("gone")]


def test_a_reconciled_task_is_answered_only_when_it_is_not_here() -> None:
    state = running()
    assert handle(state, ev.Reconcile(key(), partition_aware=True), at()) == []
    (status,) = sent(handle(state, ev.Reconcile(key("gone"), partition_aware=True), at()))
    assert (status["state"], status["reason"]) == ("TASK_DROPPED", "REASON_RECONCILIATION")


def test_a_reconciled_task_that_has_ended_here_ended_as_it_did() -> None:
    # A master may know it again from a list of ours that crossed the acknowledgement.
    state = running()
    end(state, exit_code=0)
    acknowledge_all(state)
    assert state.frameworks.task(key()) is None
    (status,) = sent(handle(state, ev.Reconcile(key(), partition_aware=True), at()))
    assert (status["state"], status["reason"]) == ("TASK_FINISHED", "REASON_RECONCILIATION")


def test_a_scheduler_that_came_back_gets_its_outstanding_updates_again() -> None:
    state = running()
    actions = handle(state, ev.UpdateFramework(FRAMEWORK_ID, framework(name="renamed")), at(1.0))
    assert [s["state"] for s in sent(actions)] == ["TASK_STARTING"]
    assert state.frameworks.active[FRAMEWORK_ID].info["name"] == "renamed"


def test_the_task_of_a_registration_says_what_was_forwarded_last() -> None:
    state = running()
    document = state.frameworks.tasks()[0].to_message()
    assert document["state"] == "TASK_RUNNING"
    assert document["status_update_state"] == "TASK_STARTING"
    assert "executor_id" not in document
    assert [s["state"] for s in document["statuses"]] == ["TASK_STARTING", "TASK_RUNNING"]


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
