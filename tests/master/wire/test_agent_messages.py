"""Messages to agents of each capability, and what theirs are read as."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import ProtocolError
from mesos_gpu.master.events.agents import AgentUpdate, OperationStatus, StatusUpdate
from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    AgentReregistered,
    ApplyOperation,
    DrainAgent,
    KeepResources,
    KillTask,
    MessageExecutor,
    ReconcileOperations,
    RunTask,
    RunTaskGroup,
    ShutdownExecutor,
    ShutdownFramework,
    UpdateFramework,
)
from mesos_gpu.master.wire.from_agents import READERS
from mesos_gpu.master.wire.to_agents import Books, message_of
from mesos_gpu.mesos.messages import check, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import OTHER_UUID, UUID, add_agent, framework_info, new_state

RESERVED = {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}, "allocation_info": {"role": "ml"}}
REFINED = {**RESERVED, "reservations": [{"type": "DYNAMIC", "role": "ml", "principal": "ops"}]}
OLDER = {**RESERVED, "role": "ml", "reservation": {"principal": "ops"}}
FRAMEWORK = {**framework_info(), "id": {"value": "F"}}
FINISHED = {"status": {"state": "OPERATION_FINISHED"}}
FROM = "slave(1)@127.0.0.1:5051"


def agent_of(*capabilities: str, version: str | None = UUID) -> Agent:
    agent = add_agent(new_state())
    agent.capabilities, agent.resource_version_uuid = capabilities, version
    agent.total = Resources.from_json([REFINED, {"name": "mem", "type": "SCALAR", "scalar": {"value": 64.0}}])
    return agent


def sent(action: Any, agent: Agent, driver: str | None = None) -> tuple[str, Document]:
    return message_of(action, Books(agent, lambda framework_id: driver, 75.0))


def task(**more: Any) -> Document:
    return {"name": "t", "task_id": {"value": "t"}, "agent_id": {"value": "A"}, "resources": [REFINED], **more}


def executor() -> Document:
    return {"executor_id": {"value": "e"}, "framework_id": {"value": "F"}, "resources": [REFINED]}


@pytest.mark.parametrize(
    ("capabilities", "format"), [(("RESERVATION_REFINEMENT",), REFINED), (("MULTI_ROLE",), OLDER)], ids=["new", "old"]
)
def test_resources_go_in_the_format_that_the_agent_knows(capabilities: tuple[str, ...], format: Document) -> None:
    agent = agent_of(*capabilities)
    name, message = sent(RunTask(agent.id, FRAMEWORK, task(executor=executor()), True), agent)
    assert name == "RunTaskMessage"
    assert (message["task"]["resources"], message["task"]["executor"]["resources"]) == ([format], [format])
    name, message = sent(RunTaskGroup(agent.id, FRAMEWORK, executor(), [task()], False), agent)
    assert (name, message["launch_executor"]) == ("RunTaskGroupMessage", False)
    assert message["executor"]["resources"] == [format]
    assert [one["resources"] for one in message["task_group"]["tasks"]] == [[format]]
    name, message = sent(KeepResources(agent.id), agent)
    kept = {key: value for key, value in format.items() if key != "allocation_info"}
    assert (name, [{k: v for k, v in one.items() if k != "allocation_info"} for one in message["resources"]]) == (
        "CheckpointResourcesMessage",
        [kept],
    )


@pytest.mark.parametrize(
    ("kind", "body", "older"),
    [
        ("RESERVE", {"resources": [REFINED]}, {"resources": [OLDER]}),
        ("RESERVE", {"resources": [REFINED], "source": [RESERVED]}, {"resources": [OLDER]}),
        ("CREATE", {"volumes": [REFINED]}, {"volumes": [OLDER]}),
        ("GROW_VOLUME", {"volume": REFINED, "addition": REFINED}, {"volume": OLDER, "addition": OLDER}),
        ("SHRINK_VOLUME", {"volume": REFINED, "subtract": {"value": 1.0}}, {"volume": OLDER}),
    ],
)
def test_an_operation_goes_whole_or_in_the_older_format(kind: str, body: Document, older: Document) -> None:
    info = {"type": kind, kind.lower(): body}
    new, old = agent_of("RESERVATION_REFINEMENT"), agent_of(version=None)
    name, message = sent(ApplyOperation(new.id, OTHER_UUID, info, "F"), new)
    assert (name, message["operation_info"]) == ("ApplyOperationMessage", info)
    assert (message["operation_uuid"], message["framework_id"]) == ({"value": OTHER_UUID}, {"value": "F"})
    assert message["resource_version_uuid"] == {"uuid": {"value": UUID}}
    _, message = sent(ApplyOperation(old.id, OTHER_UUID, info, None), old)
    assert message["resource_version_uuid"] == {"uuid": {"value": ""}}
    assert "framework_id" not in message, "an operator's"
    found = message["operation_info"][kind.lower()]
    assert {field: found[field] for field in older} == older
    assert {field: found[field] for field in body if field in ("subtract",)} == {
        field: body[field] for field in body if field in ("subtract",)
    }


def test_what_is_asked_of_operations_names_them() -> None:
    agent = agent_of()
    assert sent(AcknowledgeOperation(agent.id, UUID, OTHER_UUID), agent) == (
        "AcknowledgeOperationStatusMessage",
        {"status_uuid": {"value": UUID}, "operation_uuid": {"value": OTHER_UUID}},
    )
    assert sent(ReconcileOperations(agent.id, (UUID, OTHER_UUID)), agent) == (
        "ReconcileOperationsMessage",
        {"operations": [{"operation_uuid": {"value": UUID}}, {"operation_uuid": {"value": OTHER_UUID}}]},
    )


def test_every_other_message_says_whom_it_is_about() -> None:
    agent = agent_of()
    framework, about = {"framework_id": {"value": "F"}}, {"executor_id": {"value": "e"}, "framework_id": {"value": "F"}}
    config = {"mark_gone": True}
    expected = [
        (DrainAgent(agent.id, config), "DrainSlaveMessage", {"config": config}),
        (ShutdownFramework(agent.id, "F"), "ShutdownFrameworkMessage", framework),
        (KillTask(agent.id, "F", "t", None), "KillTaskMessage", {**framework, "task_id": {"value": "t"}}),
        (ShutdownExecutor(agent.id, "F", "e"), "ShutdownExecutorMessage", about),
        (
            MessageExecutor(agent.id, "F", "e", "aGk="),
            "FrameworkToExecutorMessage",
            {**about, "slave_id": {"value": agent.id}, "data": "aGk="},
        ),
    ]
    for action, name, document in expected:
        assert sent(action, agent) == (name, document)
        assert check(f"mesos.internal.{name}", document) is None
    policy = {"grace_period": {"nanoseconds": 1}}
    assert sent(KillTask(agent.id, "F", "t", policy), agent)[1]["kill_policy"] == policy


def test_an_agent_is_told_where_a_frameworks_driver_is_and_of_one_over_http_nowhere() -> None:
    agent = agent_of()
    for driver, pid in (("scheduler(1)@127.0.0.1:9", "scheduler(1)@127.0.0.1:9"), (None, "@0.0.0.0:0")):
        name, message = sent(UpdateFramework(agent.id, FRAMEWORK), agent, driver)
        assert (name, message["pid"], message["framework_info"]) == ("UpdateFrameworkMessage", pid, FRAMEWORK)
        assert encode(f"mesos.internal.{name}", message)


def test_who_came_back_is_asked_about_the_tasks_that_it_did_not_list() -> None:
    agent = agent_of()
    asked = [{"framework_id": {"value": "F"}, "statuses": []}]
    name, message = sent(AgentReregistered(agent.id, asked), agent)
    assert (name, message["reconciliations"]) == ("SlaveReregisteredMessage", asked)
    assert message["connection"] == {"total_ping_timeout_seconds": 75.0}
    assert "reconciliations" not in sent(AgentReregistered(agent.id), agent)[1]


def update(**more: Any) -> Document:
    status = {"task_id": {"value": "t"}, "state": "TASK_RUNNING", "uuid": UUID}
    body = {"framework_id": {"value": "F"}, "slave_id": {"value": "A"}, "status": status, "timestamp": 7.5}
    return {"update": {**body, "uuid": UUID, **more}, "pid": FROM}


def test_a_status_update_is_read_with_who_sent_it_and_when() -> None:
    found = READERS["StatusUpdateMessage"](update(executor_id={"value": "e"}), FROM)
    assert isinstance(found, StatusUpdate)
    assert (found.agent_id, found.framework_id, found.latest_state) == ("A", "F", "TASK_RUNNING")
    assert {key: found.status[key] for key in ("agent_id", "executor_id", "timestamp", "uuid", "state")} == {
        "agent_id": {"value": "A"},
        "executor_id": {"value": "e"},
        "timestamp": 7.5,
        "uuid": UUID,
        "state": "TASK_RUNNING",
    }
    newer = READERS["StatusUpdateMessage"](update(latest_state="TASK_FINISHED"), FROM)
    assert isinstance(newer, StatusUpdate)
    assert newer.latest_state == "TASK_FINISHED"


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (
            "StatusUpdateMessage",
            {"update": {key: value for key, value in update()["update"].items() if key != "slave_id"}},
        ),
        ("StatusUpdateMessage", update(status={"task_id": {"value": "t"}, "state": "TASK_RUNNING"})),
        ("StatusUpdateMessage", update(uuid="eA==")),
        ("StatusUpdateMessage", {**update(), "pid": "nowhere"}),
        ("UpdateOperationStatusMessage", {"status": {"state": "OPERATION_FINISHED"}, "slave_id": {"value": "A"}}),
        (
            "UpdateOperationStatusMessage",
            {"operation_uuid": {"value": UUID}, "status": {"state": "OPERATION_FINISHED"}},
        ),
        (
            "UpdateOperationStatusMessage",
            {
                "slave_id": {"value": "A"},
                "operation_uuid": {"value": "eA=="},
                "status": {"state": "OPERATION_FINISHED"},
            },
        ),
    ],
)
def test_news_that_do_not_say_of_what_are_refused(name: str, document: Document) -> None:
    with pytest.raises(ProtocolError):
        READERS[name](document, FROM)


def test_the_status_of_an_operation_names_it() -> None:
    status = {"state": "OPERATION_FINISHED"}
    document = {"slave_id": {"value": "A"}, "operation_uuid": {"value": UUID}, "status": status}
    assert READERS["UpdateOperationStatusMessage"](document, FROM) == OperationStatus("A", UUID, status)


@pytest.mark.parametrize(
    ("said", "operations"),
    [({}, None), ({"operations": {}}, []), ({"operations": {"operations": [{"uuid": UUID}]}}, [{"uuid": UUID}])],
)
def test_an_agents_update_lists_its_operations_or_says_nothing_of_them(
    said: Document, operations: list[Document] | None
) -> None:
    document = {"slave_id": {"value": "A"}, "resource_version_uuid": {"value": UUID}, **said}
    assert READERS["UpdateSlaveMessage"](document, FROM) == AgentUpdate("A", FROM, UUID, operations)
