from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent, Executor, Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.validation.calls import call_problem, framework_problem
from mesos_gpu.master.validation.infos import (
    Info,
    check_problem,
    command_problem,
    container_problem,
    health_check_problem,
    secret_problem,
    volume_problem,
)
from mesos_gpu.master.validation.validation import Launch, executor_resources, task_problem
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import (
    GPU_AGENT,
    UUID,
    add_agent,
    add_framework,
    framework_info,
    new_state,
    recorded,
    resources_of,
    task_info,
)


@pytest.fixture
def state() -> MasterState:
    return new_state()


@pytest.fixture
def agent(state: MasterState) -> Agent:
    return add_agent(state)


@pytest.fixture
def framework(state: MasterState) -> Framework:
    return add_framework(state)


def problem(framework: Framework, agent: Agent, task: Document, available: str = GPU_AGENT) -> str | None:
    return task_problem(Launch(task, framework, agent, Resources.parse(available)))


def executor(resources: str = "cpus:0.1;mem:32", **more: Any) -> Document:
    return {"executor_id": {"value": "e"}, "command": {"value": "run"}, "resources": resources_of(resources), **more}


def scalar(name: str, value: float) -> Document:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}}


def test_a_task_of_one_gpu_is_fine(framework: Framework, agent: Agent) -> None:
    assert problem(framework, agent, task_info(agent)) is None


GPUS = "Task uses invalid resources: Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (0.5, GPUS),
        (1.5, GPUS),
        (1.001, GPUS),
        (8.001, GPUS),
        (1.0001, None),
        (2, None),
        (-1, "Resource 'gpus:-1' is invalid: Invalid scalar resource: value <= 0"),
        (0.0004, "Resource 'gpus:0' is invalid: Invalid scalar resource: value <= 0"),
        (0, None),
    ],
)
def test_gpus_are_whole_to_a_thousandth(framework: Framework, agent: Agent, gpus: float, expected: str | None) -> None:
    resources = [scalar("cpus", 0.1), scalar("mem", 32), scalar("gpus", gpus)]
    assert problem(framework, agent, task_info(agent) | {"resources": resources}) == expected


CASES: dict[str, tuple[Document, str | None]] = {
    "no cpus": ({"resources": [scalar("cpus", 0), scalar("mem", 32)]}, None),
    "nothing": ({"resources": []}, "Task uses no resources"),
    "id": ({"task_id": {"value": "a/b"}}, "'a/b' contains invalid characters"),
    "agent": ({"agent_id": {"value": "S9"}}, "Task uses invalid agent S9 while agent {agent} is expected"),
    "kill policy": (
        {"kill_policy": {"grace_period": {"nanoseconds": -1}}},
        "Task's 'kill_policy.grace_period' must be non-negative",
    ),
    "completion": (
        {"max_completion_time": {"nanoseconds": -1}},
        "Task's `max_completion_time` must be non-negative",
    ),
    "check": ({"check": {"type": "HTTP"}}, "Task uses invalid check: Expecting 'http' to be set for HTTP check"),
    "health": (
        {"health_check": {"type": "COMMAND", "command": {"value": "true"}, "delay_seconds": -1.0}},
        "Task uses invalid health check: Expecting 'delay_seconds' to be non-negative",
    ),
    "health type": ({"health_check": {}}, "Task uses invalid health check: HealthCheck must specify 'type'"),
    "environment": (
        {"command": {"value": "true", "environment": {"variables": [{"name": "A"}]}}},
        "Task's `CommandInfo` is invalid: Environment variable 'A' of type 'VALUE' must have a value set",
    ),
    "docker": (
        {"container": {"type": "DOCKER"}},
        "Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo",
    ),
    "limit": ({"limits": {"cpus": {"value": "Infinity"}}}, None),
    "low limit": (
        {"limits": {"mem": {"value": 1.0}}},
        "The memory limit must be greater than or equal to the memory request",
    ),
    "strange limit": (
        {"limits": {"gpus": {"value": 1.0}}},
        "Only cpus and mem may be included in a task's resource limits",
    ),
    "both": (
        {"executor": executor()},
        "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present",
    ),
    "roles": (
        {
            "resources": [
                scalar("cpus", 1) | {"allocation_info": {"role": "a"}},
                scalar("mem", 32) | {"allocation_info": {"role": "b"}},
            ]
        },
        "Invalid task resources: The resources have multiple allocation roles ('b' and 'a') but only one "
        "allocation role is allowed",
    ),
    "revocable": (
        {"resources": [scalar("cpus", 1), scalar("cpus", 1) | {"revocable": {}}]},
        "Task mixes revocable and non-revocable resources: Cannot use both revocable and non-revocable 'cpus' "
        "at the same time",
    ),
    "too many": (
        {"resources": [scalar("cpus", 0.1), scalar("gpus", 9)]},
        "Total resources cpus:0.1; gpus:9 required by task and its executor is more than available {available}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_tasks_are_refused_for_mesos_reasons(framework: Framework, agent: Agent, name: str) -> None:
    change, expected = CASES[name]
    if expected is not None:
        expected = expected.format(agent=agent.id, available=Resources.parse(GPU_AGENT))
    assert problem(framework, agent, task_info(agent) | change) == expected


def test_the_first_of_several_reasons_is_given(framework: Framework, agent: Agent) -> None:
    task = task_info(agent) | {"task_id": {"value": ""}, "resources": [], "agent_id": {"value": "x"}}
    assert problem(framework, agent, task) == "ID must not be empty"


def test_an_id_is_taken_while_its_task_lives_or_may_come_back(framework: Framework, agent: Agent) -> None:
    task = Task(task_info(agent), Resources())
    framework.tasks["t"] = task
    assert problem(framework, agent, task_info(agent)) == "Task has duplicate ID: t"
    framework.unreachable["t"] = framework.tasks.pop("t")
    assert problem(framework, agent, task_info(agent)) == "Task reuses the ID of an unreachable task: t"


def test_limits_need_an_agent_that_knows_them(framework: Framework, agent: Agent) -> None:
    agent.capabilities = ()
    task = task_info(agent) | {"limits": {"cpus": {"value": 1.0}}}
    assert problem(framework, agent, task) == "Agent is not capable of handling task resource limits"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"executor_id": {"value": ".."}}, "'..' is disallowed"),
        ({"type": "DEFAULT"}, "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"),
        ({"type": "UNKNOWN"}, "'ExecutorInfo.type' must be 'CUSTOM'"),
        ({"container": {"type": "MESOS", "linux_info": {"share_cgroups": True}}}, "The 'share_cgroups' field cannot"),
        (
            {"container": {"type": "MESOS", "volumes": [{}]}},
            "Executor's `ContainerInfo` is invalid: Invalid volume: Only",
        ),
        ({"framework_id": {"value": "other"}}, "ExecutorInfo has an invalid FrameworkID (Actual: other vs Expected: "),
        ({"shutdown_grace_period": {"nanoseconds": -1}}, "ExecutorInfo's 'shutdown_grace_period' must be non-negative"),
        ({"resources": [scalar("gpus", 0.5)]}, "Executor uses invalid resources: Invalid 'gpus' resource"),
        ({"resources": [scalar("gpus", 4)]}, "Total resources cpus:0.1; mem:32; gpus:5 required by task"),
    ],
)
def test_executors_are_checked_too(framework: Framework, agent: Agent, change: Document, expected: str | None) -> None:
    found = problem(framework, agent, task_info(agent, executor=executor() | change))
    assert found is None if expected is None else str(found).startswith(expected)


def test_an_executor_needs_its_command(framework: Framework, agent: Agent) -> None:
    bare = executor()
    del bare["command"]
    found = problem(framework, agent, task_info(agent, executor=bare))
    assert found == "'ExecutorInfo.command' must be set for 'CUSTOM' executor"


def test_a_running_executor_is_not_charged_again_and_must_be_the_same(framework: Framework, agent: Agent) -> None:
    info = executor("cpus:2;mem:32")
    agent.executors[(framework.id, "e")] = Executor(info, Resources.from_json(info["resources"]))
    task = task_info(agent, executor=info)
    assert not executor_resources(Launch(task, framework, agent, Resources()))
    assert problem(framework, agent, task) is None
    other = task_info(agent, executor=info | {"name": "changed"})
    assert str(problem(framework, agent, other)).startswith("ExecutorInfo is not compatible with existing")


ID = {"value": "f"}


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({}, "Expecting 'type' to be present"),
        ({"type": "SUBSCRIBE"}, "Expecting 'subscribe' to be present"),
        ({"type": "DECLINE", "decline": {}}, "Expecting 'framework_id' to be present"),
        ({"type": "DECLINE", "framework_id": ID}, "Expecting 'decline' to be present"),
        ({"type": "ACCEPT_INVERSE_OFFERS", "framework_id": ID}, "Expecting 'accept_inverse_offers' to be present"),
        ({"type": "TEARDOWN", "framework_id": ID}, None),
        ({"type": "REVIVE", "framework_id": ID}, None),
        ({"type": "SUPPRESS", "framework_id": ID}, None),
    ],
)
def test_a_call_has_its_framework_and_its_body(call: dict[str, Any], problem: str | None) -> None:
    assert call_problem(call) == problem


@pytest.mark.parametrize(("uuid", "fine"), [(UUID, True), ("AAAA", False), ("", False), ("?", False)])
def test_an_acknowledged_uuid_has_sixteen_bytes(uuid: str, fine: bool) -> None:
    body = {"agent_id": {"value": "a"}, "task_id": {"value": "t"}, "uuid": uuid}
    call = {"type": "ACKNOWLEDGE", "framework_id": ID, "acknowledge": body}
    assert call_problem(call) == (None if fine else "Not a valid UUID")
    of_operation = {"uuid": uuid, "operation_id": {"value": "o"}}
    call = {"type": "ACKNOWLEDGE_OPERATION_STATUS", "framework_id": ID, "acknowledge_operation_status": of_operation}
    assert call_problem(call) == ("Expecting 'agent_id' to be present" if fine else "Not a valid UUID")


@pytest.mark.parametrize("call_id", [None, "f", "g"])
@pytest.mark.parametrize("info_id", [None, "f"])
def test_a_subscription_names_one_framework_or_none(call_id: str | None, info_id: str | None) -> None:
    info = framework_info() | ({} if info_id is None else {"id": {"value": info_id}})
    call: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
    if call_id is not None:
        call["framework_id"] = {"value": call_id}
    assert (call_problem(call) is None) == (call_id == info_id)


@pytest.mark.parametrize("subscription", recorded()["subscriptions"], ids=lambda s: str(s["framework_info"]["roles"]))
def test_frameworks_are_refused_in_mesos_words(subscription: dict[str, Any]) -> None:
    if subscription["status"] == 400:
        call = {"type": "SUBSCRIBE", "subscribe": {"framework_info": subscription["framework_info"]}}
        assert f"Failed to validate scheduler::Call: {call_problem(call)}" == subscription["body"]
        return
    errors = [event["error"]["message"] for event in subscription["events"] if event["type"] == "ERROR"]
    assert framework_problem(subscription["framework_info"]) == (errors[0] if errors else None)


def test_an_unusable_failover_timeout_or_suppressed_role_is_refused() -> None:
    for beyond, shown in ((1e300, "1e+300"), ("NaN", "nan"), (-1e10, "-1e+10")):
        words = framework_problem(framework_info(failover_timeout=beyond))
        assert words == f"The framework failover_timeout ({shown}) is invalid"
    assert framework_problem(framework_info(failover_timeout=-1.0)) is None, "as Mesos: over at once"
    assert "failover_timeout" in str(framework_problem(framework_info(failover_timeout="Infinity")))
    assert "'other'" in str(framework_problem(framework_info(), ("other",)))
    assert framework_problem(framework_info(), ("*",)) is None
    assert "contains invalid characters" in str(framework_problem(framework_info(id={"value": "a/b"})))


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({"type": "VALUE", "value": {"data": ""}}, None),
        ({"type": "REFERENCE", "reference": {"name": "n"}}, None),
        ({"type": "UNKNOWN"}, None),
        ({"type": "VALUE", "value": {"data": ""}, "reference": {"name": "n"}}, "must not have the 'reference' field"),
        ({"type": "REFERENCE", "reference": {"name": "n"}, "value": {"data": ""}}, "Secret 'n' of type REFERENCE must"),
    ],
)
def test_secrets(secret: Info, words: str | None) -> None:
    problem = secret_problem(secret)
    assert problem is None if words is None else words in str(problem)


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"host_path": "/x"}, None),
        ({"image": {}}, None),
        ({"source": {"type": "SANDBOX_PATH", "sandbox_path": {}}}, None),
        ({"source": {}}, "'source.type' is unknown"),
        ({"source": {"type": "CSI_VOLUME"}}, "'source.csi_volume' is not set for CSI volume"),
        ({"source": {"type": "CSI_VOLUME", "csi_volume": {}}}, "'source.csi_volume.static_provisioning' is not set"),
        ({"source": {"type": "CSI_VOLUME", "csi_volume": {"static_provisioning": {}}}}, None),
    ],
)
def test_volumes(volume: Info, words: str | None) -> None:
    problem = volume_problem(volume)
    assert problem is None if words is None else str(problem).startswith(words)
    inside = container_problem({"type": "MESOS", "volumes": [volume]})
    assert inside == (None if problem is None else f"Invalid volume: {problem}")


def test_what_is_well_has_no_problem() -> None:
    assert command_problem({"value": "true"}) is None
    variables = [{"name": "A", "value": ""}, {"name": "B", "type": "SECRET", "secret": {"type": "UNKNOWN"}}]
    assert command_problem({"environment": {"variables": variables}}) is None
    assert container_problem({"type": "DOCKER", "docker": {"image": "i", "parameters": [{"key": "k"}]}}) is None
    assert check_problem({"type": "COMMAND", "command": {"command": {"value": "x"}}, "timeout_seconds": 0}) is None
    assert check_problem({"type": "HTTP", "http": {"port": 1}}) is None
    assert health_check_problem({"type": "HTTP", "http": {"port": 1, "scheme": "https", "path": "/"}}) is None
    assert health_check_problem({"type": "COMMAND", "command": {"value": "x"}}) is None


def test_a_check_needs_a_command_that_is_one() -> None:
    for command, words in (({}, "'shell command'"), ({"shell": False}, "'executable path'")):
        found = check_problem({"type": "COMMAND", "command": {"command": command}})
        assert found == f"Command check must contain {words}"
    command = {"value": "x", "environment": {"variables": [{"name": "A"}]}}
    found = check_problem({"type": "COMMAND", "command": {"command": command}})
    assert str(found).startswith("Check's `CommandInfo` is invalid: Environment variable 'A'")
