from __future__ import annotations

import json

import pytest

from mesos_gpu.master.decisions import offering, subscriptions, updates
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.state.actions import AcknowledgeStatus, KillTask, MessageExecutor, ShutdownExecutor
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.state.unversioned import framework_view
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.at_once import agents, readmission
from tests.support.master.build import (
    NOW,
    OTHER_UUID,
    UUID,
    add_agent,
    add_framework,
    check_books,
    events,
    later,
    launch,
    new_state,
    offers,
    recorded,
    report,
    resources_of,
    status,
    statuses,
    task_info,
)


class Running:
    """A state with one agent, one framework, and a task `t` that was launched."""

    def __init__(self, capabilities: str = "GPU_RESOURCES PARTITION_AWARE") -> None:
        self.state: MasterState = new_state()
        self.agent: Agent = add_agent(self.state)
        self.framework: Framework = add_framework(self.state, capabilities=capabilities)
        [offer] = offers(self.state)
        launch(self.state, offer, task_info(self.agent), refuse_s=3600)

    def update(self, state: str, latest: str | None = None, uuid: str = UUID, task_id: str = "t") -> list[Document]:
        told = status(self.agent, task_id, state, uuid)
        return statuses(updates.status_update(self.state, self.agent.id, self.framework.id, told, latest or state))

    def acknowledge(self, uuid: str = UUID) -> list[object]:
        body = {"agent_id": {"value": self.agent.id}, "task_id": {"value": "t"}, "uuid": uuid}
        return list(updates.acknowledge(self.state, self.framework, body))


@pytest.fixture
def running() -> Running:
    return Running()


def test_an_update_is_passed_on_as_it_came(running: Running) -> None:
    assert running.update("TASK_RUNNING") == [status(running.agent, "t", "TASK_RUNNING")]
    assert running.framework.tasks["t"].state == "TASK_RUNNING"


@pytest.mark.parametrize("told", [True, False])
def test_what_an_ended_task_had_is_offered_when_its_framework_knows_of_the_end(running: Running, told: bool) -> None:
    """Before, a framework would take the task for running and refuse what it had, perhaps forever."""
    state = running.state
    assert offers(state) == [], "the rest was refused"
    running.update("TASK_RUNNING", latest="TASK_FINISHED")
    assert not state.agents[running.agent.id].tasks[running.framework.id, "t"].held
    assert not state.allocation_due
    if told:
        running.update("TASK_FINISHED", uuid=OTHER_UUID)
        assert state.allocation_due
        sent = offers(state)
    else:
        assert offering.tick(state, later(1)) == [], "the interval may have been about to end"
        sent = [offer for offer in events(offering.tick(state, later(2)), "OFFERS")]
    assert len(sent) == 1
    check_books(state)


@pytest.mark.parametrize("told", [True, False])
def test_what_is_withheld_is_offered_although_the_rest_of_its_agent_was_meanwhile(running: Running, told: bool) -> None:
    state = running.state
    assert offers(state) == [], "the rest was refused"
    running.update("TASK_RUNNING", latest="TASK_FINISHED")
    subscriptions.revive(state, running.framework, [])
    assert len(offers(state)) == 1
    assert running.agent.free == Resources.parse("cpus:0.1;mem:32;gpus:1")
    if told:
        running.update("TASK_FINISHED", uuid=OTHER_UUID)
        offers(state)
    else:
        offering.tick(state, later(1))
        offering.tick(state, later(2))
    assert not running.agent.free, "what is free is not offered"
    check_books(state)


def test_an_update_that_newer_ones_have_overtaken_is_not_passed_on(running: Running) -> None:
    """It comes over a connection that was cut, when the cable is mended; its agent had the acknowledgement long ago."""
    framework = running.framework
    assert running.update("TASK_RUNNING", uuid="r")
    assert running.update("TASK_RUNNING", uuid="r"), "sent again, as long as nothing newer was: its end may be unheard"
    running.acknowledge("r")
    assert running.update("TASK_FINISHED", uuid="f")
    assert running.update("TASK_RUNNING", uuid="r") == []
    assert framework.tasks["t"].told_state == "TASK_FINISHED"
    running.acknowledge("f")
    assert not framework.tasks
    assert running.update("TASK_RUNNING", uuid="r") == []
    assert running.update("TASK_FINISHED", uuid="f"), "the agent did not hear of the acknowledgement"
    assert running.state.counters["invalid_status_updates"] == 3
    check_books(running.state)


def test_an_agent_that_says_what_was_overtaken_hears_that_it_was_acknowledged(running: Running) -> None:
    """It could not write that down, and says nothing later of the task before it has."""
    running.update("TASK_STARTING", uuid="s")
    running.acknowledge("s")
    running.update("TASK_RUNNING", uuid="r")
    again = status(running.agent, "t", "TASK_STARTING", "s")

    def answers() -> list[object]:
        actions = updates.status_update(running.state, running.agent.id, running.framework.id, again, "TASK_FAILED")
        return [action for action in actions if isinstance(action, AcknowledgeStatus)]

    assert answers() == [AcknowledgeStatus(running.agent.id, running.framework.id, "t", "s")]
    running.agent.connected = False
    assert answers() == []


def test_two_processes_of_an_agent_that_say_an_end_are_both_heard(running: Running) -> None:
    """A kernel delivers what the first said when the second has said so, too, and waits to be acknowledged."""
    first, second = OTHER_UUID, UUID
    for uuid in (second, first, second):
        assert running.update("TASK_DROPPED", uuid=uuid)
    running.acknowledge(second)
    assert not running.framework.tasks
    assert running.update("TASK_DROPPED", uuid=first)
    check_books(running.state)


def test_what_was_passed_on_is_known_still_when_the_agent_was_unreachable(running: Running) -> None:
    running.update("TASK_STARTING", uuid="s")
    running.update("TASK_RUNNING", uuid="r")
    document = {**running.framework.tasks["t"].document}
    agents.unreachable(running.state, running.agent.id, NOW)
    info = running.framework.info
    back = report(agent_id=running.agent.id, tasks=[document], frameworks=[info])
    readmission.reregister(running.state, back, NOW)
    assert running.update("TASK_STARTING", uuid="s") == []
    assert running.update("TASK_RUNNING", uuid="r")


def test_resources_are_free_at_the_terminal_state_and_the_task_stays_until_acknowledged(running: Running) -> None:
    running.update("TASK_FINISHED")
    assert running.agent.free == running.agent.total
    assert "t" in running.framework.tasks
    assert running.acknowledge() == [AcknowledgeStatus(running.agent.id, running.framework.id, "t", UUID)]
    assert not running.framework.tasks
    assert [task.state for task in running.framework.completed] == ["TASK_FINISHED"]
    check_books(running.state)


def test_what_is_shown_of_a_completed_task_is_made_once(running: Running) -> None:
    running.update("TASK_RUNNING", uuid=OTHER_UUID)
    running.update("TASK_FINISHED")
    (live,) = framework_view(running.state, running.framework)["tasks"]
    running.acknowledge()
    (page,) = framework_view(running.state, running.framework)["completed_tasks"]
    assert json.loads(bytes(page)) == live
    assert [status["state"] for status in live["statuses"]] == ["TASK_RUNNING", "TASK_FINISHED"]
    (again,) = framework_view(running.state, running.framework)["completed_tasks"]
    assert again is page


def test_only_the_acknowledgement_of_the_terminal_update_ends_the_task(running: Running) -> None:
    running.update("TASK_RUNNING", uuid=OTHER_UUID)
    running.update("TASK_FINISHED", uuid=UUID)
    assert len(running.acknowledge(OTHER_UUID)) == 1
    assert "t" in running.framework.tasks
    running.acknowledge(UUID)
    assert not running.framework.tasks


def test_the_latest_state_books_the_resources_while_an_older_one_is_told(running: Running) -> None:
    running.update("TASK_STARTING", latest="TASK_FAILED")
    task = running.framework.tasks["t"]
    assert (task.state, task.told_state) == ("TASK_FAILED", "TASK_STARTING")
    assert running.agent.free == running.agent.total
    running.acknowledge()
    assert "t" in running.framework.tasks
    running.update("TASK_FAILED", uuid=OTHER_UUID)
    running.acknowledge(OTHER_UUID)
    assert not running.framework.tasks
    check_books(running.state)


def test_a_terminal_state_is_final(running: Running) -> None:
    running.update("TASK_KILLED")
    running.update("TASK_RUNNING", uuid=OTHER_UUID)
    assert running.framework.tasks["t"].state == "TASK_KILLED"
    check_books(running.state)


def test_a_repeated_update_is_told_again_and_kept_once(running: Running) -> None:
    for _ in range(2):
        assert running.update("TASK_RUNNING")
    assert len(running.framework.tasks["t"].document["statuses"]) == 1


def test_updates_of_unknown_tasks_are_told_and_of_unknown_agents_are_not(running: Running) -> None:
    assert running.update("TASK_LOST", task_id="other")
    gone = status(running.agent, "t", "TASK_FAILED")
    assert not statuses(updates.status_update(running.state, "S9", running.framework.id, gone, "TASK_FAILED"))
    assert not updates.status_update(running.state, running.agent.id, "nobody", gone, "TASK_FAILED")


def test_an_acknowledgement_for_an_agent_that_is_away_is_dropped(running: Running) -> None:
    running.update("TASK_FINISHED")
    agents.exited(running.state, running.agent.pid, NOW)
    assert running.acknowledge() == []
    assert "t" in running.framework.tasks


def kill(running: Running, **body: object) -> list[object]:
    return list(updates.kill(running.state, running.framework, {"task_id": {"value": "t"}, **body}, NOW))


def test_a_kill_reaches_the_agent_with_its_policy(running: Running) -> None:
    policy = {"grace_period": {"nanoseconds": 5}}
    assert kill(running, kill_policy=policy) == [KillTask(running.agent.id, running.framework.id, "t", policy)]
    assert kill(running, agent_id={"value": "S9"}) == []
    assert kill(running, agent_id={"value": running.agent.id}) != []


def test_killing_what_is_unknown_is_answered_as_recorded(running: Running) -> None:
    [answer] = statuses(kill(running, task_id={"value": "never-was"}))  # type: ignore[arg-type]
    told = [e["update"]["status"] for e in recorded()["events"] if e["type"] == "UPDATE"]
    [expected] = [s for s in told if s["task_id"]["value"] == "never-was"]
    assert {**answer, "timestamp": 0} == {**expected, "timestamp": 0}


def reconcile(running: Running, *tasks: Document) -> list[Document]:
    return statuses(updates.reconcile(running.state, running.framework, {"tasks": list(tasks)}, later(5)))


def test_reconciliation_without_names_tells_of_every_task_as_recorded(running: Running) -> None:
    container = {"container_id": {"value": "c"}, "network_infos": [], "executor_pid": 1}
    told = status(running.agent, "t", "TASK_RUNNING", container_status=container)
    updates.status_update(running.state, running.agent.id, running.framework.id, told, "TASK_RUNNING")
    [answer] = reconcile(running)
    statuses_told = [e["update"]["status"] for e in recorded()["events"] if e["type"] == "UPDATE"]
    [expected] = [s for s in statuses_told if s["message" if "message" in s else "state"] == updates.LATEST]
    assert set(answer) == set(expected)
    for key in ("state", "message", "source", "reason"):
        assert answer[key] == expected[key]
    assert answer["container_status"] == container
    assert "uuid" not in answer


def test_reconciliation_tells_what_was_told_last_not_what_is_ahead(running: Running) -> None:
    running.update("TASK_RUNNING", latest="TASK_FINISHED")
    assert [s["state"] for s in reconcile(running)] == ["TASK_RUNNING"]


@pytest.mark.parametrize(
    ("capabilities", "unknown", "gone"),
    [("", "TASK_LOST", "TASK_LOST"), ("PARTITION_AWARE", "TASK_UNKNOWN", "TASK_GONE")],
)
def test_a_task_we_do_not_know_is_unknown_or_gone(capabilities: str, unknown: str, gone: str) -> None:
    running = Running(f"GPU_RESOURCES {capabilities}")
    [answer] = reconcile(running, {"task_id": {"value": "x"}})
    assert answer["state"] == unknown
    [answer] = reconcile(running, {"task_id": {"value": "x"}, "agent_id": {"value": running.agent.id}})
    assert (answer["state"], answer["agent_id"]) == (gone, {"value": running.agent.id})


def test_a_task_of_an_unreachable_agent_is_unreachable_since_then(running: Running) -> None:
    agents.unreachable(running.state, running.agent.id, NOW)
    [answer] = reconcile(running, {"task_id": {"value": "t"}, "agent_id": {"value": running.agent.id}})
    assert answer["state"] == "TASK_UNREACHABLE"
    assert answer["unreachable_time"] == {"nanoseconds": round(NOW.wall_s * 1e9)}


def test_who_names_no_agent_is_told_that_a_task_of_an_unreachable_one_is_unknown(running: Running) -> None:
    agents.unreachable(running.state, running.agent.id, NOW)
    [answer] = reconcile(running, {"task_id": {"value": "t"}})
    assert (answer["state"], answer["message"]) == ("TASK_UNKNOWN", "Reconciliation: Task is unknown")
    assert "agent_id" not in answer


def test_nothing_is_said_of_a_task_that_may_come_back_with_its_agent(running: Running) -> None:
    agents.unreachable(running.state, running.agent.id, NOW)
    running.state.recovered = {"S7": running.state.unreachable.pop(running.agent.id)}
    assert reconcile(running, {"task_id": {"value": "x"}}) == []
    assert reconcile(running, {"task_id": {"value": "x"}, "agent_id": {"value": "S7"}}) == []


def test_executors_are_told_and_heard(running: Running) -> None:
    executor = {
        "executor_id": {"value": "e"},
        "command": {"value": "run"},
        "resources": resources_of("cpus:0.5;mem:32"),
    }
    running.state.filters.forget_framework(running.framework.id)
    [offer] = offers(running.state)
    launch(running.state, offer, task_info(running.agent, "x", "cpus:0.1;mem:32", executor=executor))
    body = {"agent_id": {"value": running.agent.id}, "executor_id": {"value": "e"}, "data": "aGk="}
    [message] = updates.message_executor(running.state, body, running.framework)
    assert message == MessageExecutor(running.agent.id, running.framework.id, "e", "aGk=")
    [shutdown] = updates.shutdown_executor(running.state, body, running.framework)
    assert shutdown == ShutdownExecutor(running.agent.id, running.framework.id, "e")
    heard = updates.message_framework(running.state, running.agent.id, running.framework.id, "e", "aGk=")
    assert events(heard, "MESSAGE") == [body]
    used = running.agent.used_total.milli("cpus")
    ended = updates.exited_executor(running.state, running.agent.id, running.framework.id, "e", 9)
    [failure] = events(ended, "FAILURE")
    assert failure == {"agent_id": {"value": running.agent.id}, "executor_id": {"value": "e"}, "status": 9}
    assert running.agent.used_total.milli("cpus") == used - 500
    assert updates.exited_executor(running.state, running.agent.id, running.framework.id, "e", 9) == []
    check_books(running.state)
