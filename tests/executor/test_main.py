"""The default executor's program under an agent of words: calls, restarts of the agent, checks, and its own end."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.container_agent import ContainerAgent
from tests.support.executor import PROGRAM, Pod, task
from tests.support.golden import Golden

pytestmark = pytest.mark.slow


@pytest.fixture
async def pod(tmp_path: Path) -> AsyncIterator[Pod]:
    pod = Pod(await ContainerAgent().start(), tmp_path)
    yield pod
    if pod.process is not None and pod.process.returncode is None:
        pod.process.kill()
        await pod.process.wait()
    await pod.agent.stop()


async def test_a_group_runs_one_task_is_killed_and_the_program_ends(pod: Pod, golden: Golden) -> None:
    await pod.start()
    containers = await pod.launch(task("a"), task("b"))
    launch = pod.agent.of("LAUNCH_NESTED_CONTAINER")[0]
    assert launch["container_id"]["parent"] == {"value": "top"}
    assert {v["name"]: v["value"] for v in launch["command"]["environment"]["variables"]} == {
        "MESOS_CONTAINER_IP": "127.0.0.1"
    }
    link = pod.sandbox / "tasks" / "a"
    assert link.readlink() == Path("..", "containers", containers["a"])
    pod.agent.send("KILL", task_id={"value": "a"})
    assert await pod.exit_status() == 0
    for name in ("a", "b"):
        assert pod.agent.states(name) == ["TASK_STARTING", "TASK_RUNNING", "TASK_KILLING", "TASK_KILLED"]
    last = pod.agent.updates[-1]
    assert last["message"] == golden
    assert last["executor_id"] == {"value": "pod"}


async def test_a_tasks_persistent_volumes_are_those_shown_in_the_executors_sandbox(pod: Pod) -> None:
    """As Mesos' default executor asks for them (src/launcher/default_executor.cpp)."""
    await pod.start()
    disk = {"persistence": {"id": "v"}, "volume": {"container_path": "data", "mode": "RO"}}
    resource = {"name": "disk", "type": "SCALAR", "scalar": {"value": 1.0}, "disk": disk}
    own = {"container_path": "tmp", "mode": "RW", "host_path": "/tmp"}
    containers = await pod.launch(
        {**task("a"), "resources": [resource]},
        {**task("b"), "resources": [resource], "container": {"type": "MESOS", "volumes": [own]}},
        task("c"),
    )
    source = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": "data"}}
    shown = {"container_path": "data", "mode": "RO", "source": source}
    # Launches go out at once, each from a thread of its own: they come in any order.
    launches = {
        launch["container_id"]["value"]: launch.get("container") for launch in pod.agent.of("LAUNCH_NESTED_CONTAINER")
    }
    assert {name: launches[container] for name, container in containers.items()} == {
        "a": {"type": "MESOS", "volumes": [shown]},
        "b": {"type": "MESOS", "volumes": [own, shown]},
        "c": None,
    }


async def test_a_launch_that_the_agent_refuses_fails_in_its_words(pod: Pod, golden: Golden) -> None:
    await pod.start()
    pod.agent.refuses = "no such image"
    pod.agent.send("LAUNCH_GROUP", task_group={"tasks": [task("a")]})
    assert await pod.exit_status() == 0
    assert pod.agent.updates[-1]["message"] == golden


async def test_what_happened_without_an_agent_is_told_to_the_next(pod: Pod) -> None:
    await pod.start()
    containers = await pod.launch(task("a"), task("b"))
    pod.agent.acknowledges = False
    pod.agent.send("LAUNCH_GROUP", task_group={"tasks": [task("late")]})
    await pod.agent.until(lambda: "TASK_RUNNING" in pod.agent.states("late"))
    first, port = pod.agent, pod.agent.port
    await first.stop()
    pod.agent = await ContainerAgent(first.ends).start(port)
    await pod.agent.until(lambda: len(pod.agent.of("WAIT_NESTED_CONTAINER")) == 3)
    (subscription,) = pod.agent.subscriptions
    held = subscription["subscribe"]
    assert [one["task_id"]["value"] for one in held["unacknowledged_tasks"]] == ["late"]
    assert pod.agent.states("late") == ["TASK_STARTING", "TASK_RUNNING"]
    for container_id in containers.values():
        pod.agent.end(container_id, exit_status=0)
    pod.agent.send("KILL", task_id={"value": "late"}, kill_policy={"grace_period": {"nanoseconds": 0}})
    assert await pod.exit_status() == 0
    assert pod.agent.states("a") == ["TASK_FINISHED"]
    assert [call["signal"] for call in pod.agent.of("KILL_NESTED_CONTAINER")] == [9]


async def test_checks_are_run_beside_the_task_and_told(pod: Pod) -> None:
    await pod.start()
    times = {"delay_seconds": 0, "interval_seconds": 0.05, "grace_period_seconds": 0, "consecutive_failures": 2}
    check = {"type": "COMMAND", "command": {"command": {"value": "true"}}, **times}

    def told() -> list[dict[str, Any]]:
        return [status.get("check_status", {}).get("command", {}) for status in pod.agent.updates]

    with socket.create_server(("127.0.0.1", 0)) as server:
        health = {"type": "TCP", "tcp": {"port": server.getsockname()[1]}, **times}
        await pod.launch(task("a", check=check, health_check=health))
        await pod.agent.until(lambda: {"exit_code": 0} in told())
    assert await pod.exit_status() == 0
    (session, *_) = pod.agent.of("LAUNCH_NESTED_CONTAINER_SESSION")
    assert session["container_id"]["parent"]["parent"] == {"value": "top"}
    last = pod.agent.updates[-1]
    assert (last["state"], last["healthy"]) == ("TASK_KILLED", False)


async def test_the_agent_is_told_to_forget_the_containers_of_checks(pod: Pod) -> None:
    # It would remember one more with every check, for as long as the executor lives.
    pod.agent.lingering = 1
    await pod.start()
    times = {"delay_seconds": 0, "interval_seconds": 0.02, "grace_period_seconds": 0}
    await pod.launch(task("a", check={"type": "COMMAND", "command": {"command": {"value": "true"}}, **times}))

    def ran() -> list[str]:
        return [session["container_id"]["value"] for session in pod.agent.of("LAUNCH_NESTED_CONTAINER_SESSION")]

    def forgotten() -> list[str]:
        return [one for one in ran() if one not in pod.agent.ends]

    await pod.agent.until(lambda: len(forgotten()) >= 4)
    assert ran()[0] in forgotten(), "refused at first, as it had not ended yet"
    removed = [call["container_id"] for call in pod.agent.of("REMOVE_NESTED_CONTAINER")]
    assert {one["parent"]["parent"]["value"] for one in removed} == {"top"}
    assert {one["value"] for one in removed} <= set(ran()), "the task itself is not removed"


async def test_without_checkpointing_it_ends_with_its_agent(pod: Pod) -> None:
    await pod.start(MESOS_CHECKPOINT="0")
    await pod.launch(task("a"))
    await pod.agent.stop()
    assert await pod.exit_status() == 1


async def test_started_by_hand_it_says_what_is_missing() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-S", str(PROGRAM), env={}, stderr=pipe)
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"MESOS_AGENT_ENDPOINT" in said
