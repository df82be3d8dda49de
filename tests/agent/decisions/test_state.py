"""The agent's decisions: events in, actions out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.tasks import NEXT_PHASE, Cause, IllegalTransition, Phase, next_phase
from tests.support.agent.decided import acknowledge_all, connected, end, kinds, running, sent
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, at, framework, key, run, task
from tests.support.golden import Golden


@pytest.mark.parametrize(("phase", "cause"), list(product(Phase, Cause)))
def test_every_pair_of_phase_and_cause_is_in_the_table_or_refused(phase: Phase, cause: Cause) -> None:
    if (phase, cause) in NEXT_PHASE:
        assert isinstance(next_phase(phase, cause), Phase)
    else:
        with pytest.raises(IllegalTransition):
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
    ("ending", "state_name"),
    [
        ({"exit_code": 0}, "TASK_FINISHED"),
        ({"exit_code": 7}, "TASK_FAILED"),
        ({"signal": 9}, "TASK_FAILED"),
        ({"signal": 15}, "TASK_FAILED"),
    ],
)
def test_how_a_command_ends_is_told_in_the_words_of_mesos(
    ending: dict[str, Any], state_name: str, golden: Golden
) -> None:
    state = running()
    end(state, **ending)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["message"], last["source"]) == (state_name, golden, "SOURCE_EXECUTOR")
    assert "reason" not in last


def test_running_out_of_memory_names_the_limit(golden: Golden) -> None:
    state = running()
    end(state, signal=9, oom=True, mem_limit_bytes=96 << 20)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["source"], last["reason"]) == (
        "TASK_FAILED",
        "SOURCE_AGENT",
        "REASON_CONTAINER_LIMITATION_MEMORY",
    )
    assert last["message"] == golden
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


def test_a_launch_that_fails_tells_why(golden: Golden) -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.LaunchFailed(key(), "Requested 2 gpus but only 1 available"), at())
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["source"], last["reason"], last["message"]) == (
        "TASK_FAILED",
        "SOURCE_AGENT",
        "REASON_CONTAINER_LAUNCH_FAILED",
        golden,
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
def test_what_cannot_run_here_yet_fails_with_words_and_without_a_container(
    more: dict[str, Any], golden: Golden
) -> None:
    actions = handle(connected(), run(task(**more)), at())
    assert kinds(actions) == ["SaveFramework", "Forward"]
    (status,) = sent(actions)
    assert status["state"] == "TASK_FAILED"
    assert status["message"] == golden


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


def test_a_reconciled_task_is_answered_only_when_it_is_not_here() -> None:
    state = running()
    assert handle(state, ev.Reconcile(key(), partition_aware=True), at()) == []
    (status,) = sent(handle(state, ev.Reconcile(key("gone"), partition_aware=True), at()))
    assert (status["state"], status["reason"]) == ("TASK_DROPPED", "REASON_RECONCILIATION")


def test_a_task_from_before_a_restart_of_the_machine_may_have_run(golden: Golden) -> None:
    state = running()
    state.rebooted = state.met_master = True
    (status,) = sent(handle(state, ev.KillTask(key("before")), at()))
    assert (status["state"], status["reason"]) == ("TASK_LOST", "REASON_TASK_UNKNOWN"), (
        "as one is told who knows no more"
    )
    (status,) = sent(handle(state, ev.Reconcile(key("asked"), partition_aware=True), at()))
    assert (status["state"], status["message"]) == (
        "TASK_GONE",
        golden,
    )
    assert state.doubt, "until that is acknowledged, the next process is to say the same"
    # What a master asks for when it is met again was launched since, and never got here.
    handle(state, ev.Registered(), at())
    (status,) = sent(handle(state, ev.Reconcile(key("later"), partition_aware=True), at()))
    assert status["state"] == "TASK_DROPPED"


def test_what_was_lost_with_a_restart_of_the_machine_is_remembered_until_that_is_acknowledged() -> None:
    state = connected()
    state.rebooted, state.doubt, state.met_master = True, True, False
    assert kinds(handle(state, ev.Tick(), at())) == [], "nobody has asked yet"
    handle(state, ev.Registered(), at())
    (status,) = sent(handle(state, ev.Reconcile(key("lost"), partition_aware=True), at()))
    handle(state, ev.Registered(), at(1.0))
    assert "SaveDoubt" not in kinds(handle(state, ev.Tick(), at(2.0)))
    actions = handle(state, ev.Acknowledged(key("lost"), status["uuid"]), at(3.0))
    assert [action.doubt for action in actions if isinstance(action, act.SaveDoubt)] == [False]
    assert kinds(handle(state, ev.Tick(), at(4.0))) == []


def test_a_loss_that_is_told_late_is_remembered_too() -> None:
    state = running()
    state.rebooted = state.met_master = True
    actions = handle(state, ev.KillTask(key("lost")), at())
    assert kinds(actions)[0] == "SaveDoubt"
    assert state.doubt


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


def test_what_is_acknowledged_after_the_end_lasts_as_the_end_does() -> None:
    # Else a power cut has what was before the end told again, after it.
    state = running()
    handle(state, ev.Acknowledged(key(), state.streams.pending(key())[0]["uuid"]), at())
    assert [one.lasting for one in end(state, exit_code=0) if isinstance(one, act.Log)] == [True]
    acknowledged = ev.Acknowledged(key(), state.streams.pending(key())[0]["uuid"])
    (log, forward) = handle(state, acknowledged, at())
    assert isinstance(log, act.Log)
    assert (log.record["type"], log.lasting, kinds([forward])) == ("ACK", True, ["Forward"])


def test_what_is_said_of_a_task_that_runs_need_not_outlive_the_machine() -> None:
    state = running()
    (log, _) = handle(state, ev.Acknowledged(key(), state.streams.pending(key())[0]["uuid"]), at())
    assert isinstance(log, act.Log)
    assert not log.lasting
