"""LAUNCH_GROUP: all tasks of a group or none, one executor for them, charged once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mesos_gpu.master.decisions import launching, updates
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.service import RunningMaster
from mesos_gpu.master.state.actions import Action, RunTask, RunTaskGroup
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import (
    NOW,
    add_agent,
    add_framework,
    check_books,
    new_state,
    offers,
    resources_of,
    statuses,
    task_info,
)
from tests.support.master.live import Scheduler, ScriptedAgent

EXECUTOR = "cpus:0.1;mem:64;disk:8"


@pytest.fixture
def state() -> MasterState:
    return new_state()


@pytest.fixture
def agent(state: MasterState) -> Agent:
    return add_agent(state)


@pytest.fixture
def framework(state: MasterState) -> Framework:
    return add_framework(state, capabilities="GPU_RESOURCES PARTITION_AWARE")


@pytest.fixture
async def agent_on_line(master: RunningMaster) -> AsyncIterator[ScriptedAgent]:
    scripted = ScriptedAgent(master.url)
    await scripted.start()
    await scripted.register()
    yield scripted
    await scripted.stop()


def executor(framework_id: str, resources: str = EXECUTOR, **more: Any) -> Document:
    return {
        "type": "DEFAULT",
        "executor_id": {"value": "pod"},
        "framework_id": {"value": framework_id},
        "resources": resources_of(resources),
        **more,
    }


def group(info: Document, *tasks: Document, **more: Any) -> Document:
    return {
        "type": "LAUNCH_GROUP",
        "launch_group": {"executor": info, "task_group": {"tasks": list(tasks)}},
        **more,
    }


def accept(state: MasterState, framework: Framework, *operations: Document) -> list[Action]:
    state.filters.forget_framework(framework.id)
    [offer] = offers(state)
    body = {"offer_ids": [{"value": offer.id}], "operations": list(operations), "filters": {"refuse_seconds": 0}}
    actions = launching.accept(state, framework, body, NOW)
    check_books(state)
    return actions


def test_a_group_goes_to_the_agent_whole_with_its_executor(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    info = executor(framework.id)
    [action] = accept(state, framework, group(info, task_info(agent, "a"), task_info(agent, "b")))
    assert isinstance(action, RunTaskGroup)
    assert action.launch_executor
    assert [task["task_id"]["value"] for task in action.tasks] == ["a", "b"]
    assert all(task["executor"] == action.executor for task in action.tasks), "what a task leaves out is filled in"
    assert {r["allocation_info"]["role"] for r in action.executor["resources"]} == {"*"}
    assert [task.executor_id for task in framework.tasks.values()] == ["pod", "pod"]
    assert agent.used_total == Resources.parse("cpus:0.3;mem:128;disk:8;gpus:2").allocated("*")


def test_an_executor_is_charged_once_and_free_when_it_has_ended(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    info = executor(framework.id)
    [first] = accept(state, framework, group(info, task_info(agent, "a", "cpus:0.1;mem:32")))
    [second] = accept(state, framework, group(info, task_info(agent, "b", "cpus:0.1;mem:32")))
    assert isinstance(first, RunTaskGroup)
    assert isinstance(second, RunTaskGroup)
    assert (first.launch_executor, second.launch_executor) == (True, False)
    assert agent.used_total == Resources.parse("cpus:0.3;mem:128;disk:8").allocated("*")
    updates.exited_executor(state, agent.id, framework.id, "pod", 0)
    assert agent.used_total == Resources.parse("cpus:0.2;mem:64").allocated("*")


def test_two_groups_of_one_accept_share_what_is_left(state: MasterState, agent: Agent, framework: Framework) -> None:
    info = executor(framework.id)
    tasks = [task_info(agent, name, "cpus:0.1;mem:32;gpus:3") for name in "abc"]
    actions = accept(
        state,
        framework,
        group(info, tasks[0]),
        group(info, tasks[1]),
        {"type": "LAUNCH", "launch": {"task_infos": [task_info(agent, "alone")]}},
    )
    assert [type(action) for action in actions if not statuses([action])] == [RunTaskGroup, RunTask]
    [refused] = statuses(actions)
    assert refused["task_id"]["value"] == "b"
    assert refused["message"].startswith("Total resources cpus(allocated: *):0.1; ")
    assert " required by task group and its executor are more than available " in refused["message"]


# What is wrong with the executor, the first task or the second, and what both tasks are told.
WRONG: list[tuple[Document, Document, Document, str]] = [
    ({}, {}, {"resources": resources_of("cpus:0.1;gpus:0.5")}, "Task 'b' is invalid: Task uses invalid resources: "),
    ({}, {}, {"task_id": {"value": "a"}}, "Task 'a' is invalid: Task has duplicate ID: a"),
    ({}, {"agent_id": {"value": "S9"}}, {}, "Task 'a' is invalid: Task uses invalid agent S9 while agent "),
    ({}, {"resources": []}, {}, "Task 'a' is invalid: Task uses no resources"),
    ({}, {}, {"command": None}, "Task 'b' is invalid: 'TaskInfo.command' must be set for a task of a task group"),
    (
        {},
        {"container": {"type": "DOCKER", "docker": {"image": "x"}}},
        {},
        "Task 'a' is invalid: Docker ContainerInfo is not supported on the task",
    ),
    (
        {},
        {"executor": {"executor_id": {"value": "other"}}},
        {},
        "The `ExecutorInfo` of task 'a' is different from executor 'pod'",
    ),
    (
        {},
        {"container": {"type": "MESOS", "linux_info": {"share_cgroups": False}}},
        {},
        "If set, the value of 'share_cgroups' must be the same for all tasks",
    ),
    (
        {},
        {"limits": {"mem": {"value": 100.0}}},
        {},
        "Task 'a' is invalid: Resource limits may only be set for tasks within a task group",
    ),
    ({"command": {"value": "x"}}, {}, {}, "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"),
    ({"type": "CUSTOM"}, {}, {}, "'ExecutorInfo.command' must be set for 'CUSTOM' executor"),
    ({"type": "UNKNOWN"}, {}, {}, "Unknown executor type"),
    (
        {"container": {"type": "DOCKER"}},
        {},
        {},
        "'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor",
    ),
    (
        {"container": {"type": "MESOS", "mesos": {"image": {"type": "DOCKER"}}}},
        {},
        {},
        "'ExecutorInfo.container.mesos.image' must not be set for 'DEFAULT' executor",
    ),
    ({"framework_id": {"value": "x"}}, {}, {}, "ExecutorInfo has an invalid FrameworkID (Actual: x vs Expected: "),
    (
        {"resources": resources_of("mem:64;disk:8")},
        {},
        {},
        "Executor 'pod' uses less CPUs (None) than the minimum required (0.01)",
    ),
    (
        {"resources": resources_of("cpus:0.1;mem:16;disk:8")},
        {},
        {},
        "Executor 'pod' uses less memory (16MB) than the minimum required (32MB)",
    ),
    ({"resources": resources_of("cpus:0.1;mem:64")}, {}, {}, "Executor 'pod' uses no disk"),
    ({}, {"resources": resources_of("gpus:3")}, {"resources": resources_of("gpus:2")}, "Total resources "),
]


@pytest.mark.parametrize(("of_executor", "of_a", "of_b", "words"), WRONG)
def test_one_fault_keeps_the_whole_group_from_running(
    state: MasterState,
    agent: Agent,
    framework: Framework,
    of_executor: Document,
    of_a: Document,
    of_b: Document,
    words: str,
) -> None:
    tasks = [task_info(agent, name, "cpus:0.1;mem:32") for name in "ab"]
    for task, change in zip(tasks, (of_a, of_b), strict=True):
        task |= change
        if change.get("command", 0) is None:
            del task["command"]
    actions = accept(state, framework, group({**executor(framework.id), **of_executor}, *tasks))
    told = statuses(actions)
    assert len(told) == len(actions) == 2
    for status, task in zip(told, tasks, strict=True):
        assert status["task_id"] == task["task_id"]
        assert (status["state"], status["source"]) == ("TASK_ERROR", "SOURCE_MASTER")
        assert status["reason"] == "REASON_TASK_GROUP_INVALID"
        assert status["message"].startswith(words)
        assert "uuid" not in status, "there is nothing to acknowledge"
    assert not framework.tasks
    assert not agent.executors


def test_fractions_of_a_gpu_are_refused_in_the_words_that_clients_look_for(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    tasks = task_info(agent, "a", "cpus:0.1;gpus:0.5"), task_info(agent, "b")
    told = statuses(accept(state, framework, group(executor(framework.id), *tasks)))
    assert [s["message"].count("The 'gpus' resource must be an unsigned integer") for s in told] == [1, 1]


def test_an_id_on_the_operation_is_refused_and_an_empty_group_is_nothing(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    info = executor(framework.id)
    [told] = statuses(accept(state, framework, group(info, task_info(agent), id={"value": "op"})))
    assert told["message"] == "The 'id' field must not be set on a LAUNCH_GROUP operation"
    assert accept(state, framework, group(info)) == []


def test_a_group_for_offers_that_are_gone_is_dropped(state: MasterState, agent: Agent, framework: Framework) -> None:
    operation = group(executor(framework.id), task_info(agent, "a"), task_info(agent, "b"))
    body = {"offer_ids": [{"value": "gone"}], "operations": [operation]}
    told = statuses(launching.accept(state, framework, body, NOW))
    assert [(s["state"], s["reason"]) for s in told] == [("TASK_DROPPED", "REASON_INVALID_OFFERS")] * 2


async def test_a_group_travels_as_one_message(scheduler: Scheduler, agent_on_line: ScriptedAgent) -> None:
    await scheduler.subscribe()
    offer = await scheduler.offer()
    tasks = [
        {
            "name": name,
            "task_id": {"value": name},
            "agent_id": offer["agent_id"],
            "resources": resources_of("cpus:0.1;mem:32;gpus:1"),
            "command": {"value": "true"},
        }
        for name in ("a", "b")
    ]
    body = {"offer_ids": [offer["id"]], "operations": [group(executor(scheduler.framework_id), *tasks)]}
    assert (await scheduler.call("ACCEPT", body)).status == 202
    run = await agent_on_line.message("RunTaskGroupMessage")
    assert run["launch_executor"] is True
    assert run["executor"]["type"] == "DEFAULT"
    assert [task["executor"] for task in run["task_group"]["tasks"]] == [run["executor"]] * 2
    assert {task["slave_id"]["value"] for task in run["task_group"]["tasks"]} == {agent_on_line.id}
    assert len(run["resource_version_uuids"]) == 1
    agent_on_line.say(
        "ExitedExecutorMessage",
        {
            "slave_id": {"value": agent_on_line.id},
            "framework_id": run["framework"]["id"],
            "executor_id": run["executor"]["executor_id"],
            "status": 256,
        },
    )
    failure = await scheduler.event("FAILURE", ("HEARTBEAT", "OFFERS"))
    assert failure == {
        "agent_id": {"value": agent_on_line.id},
        "executor_id": {"value": "pod"},
        "status": 256,
    }
