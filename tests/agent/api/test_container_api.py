"""Containers in a running task's, over the agent's v1 API: nested ones, sessions, and attaching to them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.support.agent.attach import JSON, PROTOBUF, RECORDIO, Client, container_id
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.golden import Golden

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="module")]

TASK = "export GREETING=hello; echo $$ started; sleep 600"
SLEEP = "exec sleep 600"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path_factory.mktemp("agent")) as live:
        live.run("task", TASK, gpus=1)
        await live.reaches("task", "TASK_RUNNING")
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def client(agent: LiveAgent, http: aiohttp.ClientSession) -> Client:
    return Client(http, f"http://127.0.0.1:{agent.port}")


@pytest_asyncio.fixture(loop_scope="module")
async def parent(agent: LiveAgent) -> str:
    (line,) = await agent.get("/containers")
    return str(line["container_id"])


def nested(name: str, line: str, **more: Any) -> dict[str, Any]:
    return {"container_id": container_id(name), "command": {"shell": True, "value": line}, **more}


async def test_a_nested_container_is_launched_waited_for_killed_and_removed(
    agent: LiveAgent, client: Client, parent: str, golden: Golden
) -> None:
    name = f"{parent}.nested"
    line = "echo $MESOS_SANDBOX; pwd; ls /dev | grep -c '^nvidia[0-9]'; nvidia-smi -L; exec sleep 600"
    assert await client.post("LAUNCH_NESTED_CONTAINER", **nested(name, line)) == (200, "")
    assert (await client.post("LAUNCH_NESTED_CONTAINER", **nested(name, line)))[0] == 202, "it is there already"
    directory = next(e["directory"] for f in (await agent.get("/state"))["frameworks"] for e in f["executors"])
    sandbox = Path(directory) / "containers" / "nested"
    await agent.until(lambda: "GPU" in (sandbox / "stdout").read_text())
    where, here, nodes, gpu = (sandbox / "stdout").read_text().splitlines()
    assert (where, here, nodes) == (str(sandbox), str(sandbox), "1")
    assert gpu.startswith("GPU 0")
    assert (await agent.get("/files/read", path=str(sandbox / "stdout"), offset="0"))["data"].startswith(where)

    shown = await agent.get("/containers", show_nested="true")
    assert [line["container_id"] for line in shown] == [parent, "nested"]
    assert shown[1]["status"]["container_id"] == container_id(name)
    assert len(await agent.get("/containers")) == 1
    status, answer = await client.post("GET_CONTAINERS", show_nested=True)
    assert [c["container_id"]["value"] for c in answer["get_containers"]["containers"]] == [parent, "nested"]

    waiting = asyncio.ensure_future(client.wait(name))
    status, words = await client.post("REMOVE_NESTED_CONTAINER", container_id=container_id(name))
    assert (status, words) == (500, golden)
    assert await client.post("KILL_NESTED_CONTAINER", container_id=container_id(name), signal=15) == (200, "")
    assert await waiting == signal.SIGTERM, "the raw wait status"
    status, words = await client.post("KILL_NESTED_CONTAINER", container_id=container_id(name))
    assert (status, words) == (404, golden.hide(name=name))
    for _ in range(2):
        assert await client.post("REMOVE_NESTED_CONTAINER", container_id=container_id(name)) == (200, "")
    assert not sandbox.exists()
    status, words = await client.post("WAIT_NESTED_CONTAINER", container_id=container_id(name))
    assert (status, words) == (404, golden)

    assert (await client.post("LAUNCH_NESTED_CONTAINER", **nested(f"{parent}.exits", "exit 4")))[0] == 200
    assert await client.wait(f"{parent}.exits") == 4 << 8


async def test_what_cannot_be_launched_is_400_and_leaves_nothing(
    agent: LiveAgent, client: Client, parent: str, golden: Golden
) -> None:
    before = len(await agent.get("/containers", show_nested="true", show_standalone="true"))
    half = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 0.5}}]
    docker = {"type": "DOCKER", "docker": {"image": "busybox"}}
    outside = [{"container_path": "x", "mode": "RW", "source": {"type": "SANDBOX_PATH", "sandbox_path": {}}}]
    outside[0]["source"]["sandbox_path"] = {"type": "PARENT", "path": "../../etc"}  # type: ignore[index]
    for call in (
        nested("nobody.child", SLEEP),
        nested(f"{parent}.docker", SLEEP, container=docker),
        nested(f"{parent}.out", SLEEP, container={"type": "MESOS", "volumes": outside}),
        nested(f"{parent}.a b", SLEEP),
        nested(f"{parent}.who", SLEEP) | {"command": {"value": "true", "user": "no-such-user"}},
        nested("standalone", SLEEP, resources=half),
        {"container_id": container_id(f"{parent}.what")},
    ):
        assert await client.post("LAUNCH_CONTAINER", **call) == (400, golden)
    assert len(await agent.get("/containers", show_nested="true", show_standalone="true")) == before


async def test_a_standalone_container_has_gpus_of_its_own(agent: LiveAgent, client: Client) -> None:
    gpu = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 1}}]
    gpu += [{"name": "mem", "type": "SCALAR", "scalar": {"value": 64}}]
    line = "nvidia-smi -L; ls /dev | grep '^nvidia[0-9]'; exec sleep 600"
    assert await client.post("LAUNCH_CONTAINER", **nested("alone", line, resources=gpu)) == (200, "")
    output = agent.folder / "work" / "containers" / "alone" / "stdout"
    await agent.until(lambda: "nvidia" in output.read_text())
    assert output.read_text().split()[-1] == "nvidia1", "the task has the first"
    assert [line["container_id"] for line in await agent.get("/containers", show_standalone="true")][-1] == "alone"
    assert await client.post("KILL_CONTAINER", container_id={"value": "alone"}) == (200, "")
    answer = (await client.post("WAIT_CONTAINER", container_id={"value": "alone"}))[1]
    assert answer == {"type": "WAIT_CONTAINER", "wait_container": {"exit_status": signal.SIGKILL}}
    assert await client.post("REMOVE_CONTAINER", container_id={"value": "alone"}) == (200, "")
    assert not output.parent.exists()


async def test_a_name_that_no_container_can_have_is_refused(client: Client) -> None:
    long = {"value": "x" * 300}
    for kind, named in (("REMOVE_CONTAINER", long), ("REMOVE_NESTED_CONTAINER", {**long, "parent": {"value": "p"}})):
        assert (await client.post(kind, container_id=named))[0] == 400


@pytest.mark.parametrize("message_type", [JSON, PROTOBUF])
async def test_a_session_streams_what_its_command_says(client: Client, parent: str, message_type: str) -> None:
    name = f"{parent}.session-{len(message_type)}"
    async with client.session(name, "echo out; echo err >&2; exit 3", message_type=message_type) as output:
        assert await output.end() == {"STDOUT": b"out\n", "STDERR": b"err\n"}
    assert await client.wait(name) == 3 << 8
    assert await client.post("REMOVE_NESTED_CONTAINER", container_id=container_id(name)) == (200, "")


async def test_a_nested_container_on_a_terminal_is_attached_to_from_launch_to_end(
    agent: LiveAgent, client: Client, parent: str
) -> None:
    name = f"{parent}.terminal"
    container = {"type": "MESOS", "tty_info": {"window_size": {"rows": 24, "columns": 80}}}
    line = "stty size; while read line; do echo heard $line at $(stty size); done; exit 6"
    assert await client.post("LAUNCH_NESTED_CONTAINER", **nested(name, line, container=container)) == (200, "")
    body = {"container_id": container_id(name)}
    call = {"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": body}
    async with client.output(call) as output, client.output(call, PROTOBUF) as beside:
        keys = client.attach(name)
        keys.resize(50, 132)
        keys.type(b"me\n")
        for hearing in (output, beside):
            await hearing.until(b"heard me at 50 132\r\n")
        assert (await client.attach(name).answer())[0] == 409, "one input at a time"
        assert (await keys.end())[0] == 200
        again = client.attach(name, PROTOBUF)
        again.type(b"")  # the end of input
        assert (await output.end())["STDERR"] == b""
        await again.answer()
    assert await client.wait(name) == 6 << 8


async def test_a_shell_on_a_terminal_is_typed_into_resized_and_interrupted(
    client: Client, parent: str, golden: Golden
) -> None:
    name = f"{parent}.shell"
    async with client.session(name, "exec sh -i", tty=(24, 80)) as output:
        keys = client.attach(name)
        keys.type(b"PS1='prompt> '; stty size; tty; echo $MESOS_SANDBOX $((40 + 2))\n")
        await output.until(b"42\r\nprompt> ")
        assert b"24 80" in output.said["STDOUT"]
        assert b"/dev/pts/" in output.said["STDOUT"]
        keys.beat()
        keys.resize(50, 132)
        keys.type(b"stty size; sleep 600\n")
        await output.until(b"50 132")
        second = client.attach(name)
        assert await second.answer() == (409, golden)
        await output.repeat(b"^C\r\nprompt> ", lambda: keys.type(b"\x03"))  # the shell may just be starting it
        # A second Ctrl-C may be on its way still, and takes what was typed with it.
        await output.repeat(b"survived 2", lambda: keys.type(b"echo survived $((1 + 1))\n"))
        keys.type(b"exit 7\n")
        await output.end()
        assert (await keys.answer())[0] == 200, "the end of the container ends its input"
    assert await client.wait(name) == 7 << 8


async def test_input_ends_and_an_other_client_hears_the_same(client: Client, parent: str) -> None:
    name = f"{parent}.cat"
    async with client.session(name, "echo ready; cat; echo over") as output:
        await output.until(b"ready")
        also = {"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": {"container_id": container_id(name)}}
        async with client.output(also, PROTOBUF) as other:
            keys = client.attach(name, PROTOBUF)
            keys.type(b"x" * 200_000 + b"\n")
            keys.type(b"")
            assert await keys.end() == (200, "")
            assert (await output.end())["STDOUT"] == b"ready\n" + b"x" * 200_000 + b"\nover\n"
            assert (await other.end())["STDOUT"] == b"x" * 200_000 + b"\nover\n"


async def test_a_session_ends_when_its_client_goes(agent: LiveAgent, client: Client, parent: str) -> None:
    name = f"{parent}.left"
    async with client.session(name, "echo $$; exec sleep 600") as output:
        await output.until(b"\n")
    assert await client.wait(name) == signal.SIGKILL


async def test_a_client_that_reads_nothing_holds_up_nobody(agent: LiveAgent, client: Client, parent: str) -> None:
    async with client.session(f"{parent}.flood", "exec yes") as flood:
        await flood.next()
        async with client.session(f"{parent}.quick", "echo quick") as output:
            assert (await output.end())["STDOUT"] == b"quick\n"
        assert await client.post("GET_HEALTH") == (200, {"type": "GET_HEALTH", "get_health": {"healthy": True}})
    assert await client.wait(f"{parent}.flood") in (signal.SIGKILL, 128 + signal.SIGPIPE)


async def test_what_a_task_without_a_switchboard_says_is_in_its_files(
    client: Client, parent: str, golden: Golden
) -> None:
    call = {"container_id": container_id(parent)}
    assert await client.post("ATTACH_CONTAINER_OUTPUT", **call) == (500, golden)


async def test_whoever_attaches_to_what_has_ended_is_not_told_that_it_never_was(client: Client, parent: str) -> None:
    """Mesos asks whether it knows the executor; then its switchboard, which forgets what ended (as `mesos task exec`
    relies on: 404 alone would make it lose the output)."""
    for name in (f"{parent}.nobody", f"{parent}.ended"):
        if name.endswith("ended"):
            assert await client.post("LAUNCH_NESTED_CONTAINER", **nested(name, "true")) == (200, "")
            assert await client.wait(name) == 0
        assert (await client.post("ATTACH_CONTAINER_OUTPUT", container_id=container_id(name)))[0] == 500
        assert (await client.attach(name).answer())[0] == 500
    assert (await client.post("ATTACH_CONTAINER_OUTPUT", container_id=container_id("nobody.child")))[0] == 404
    assert (await client.attach("nobody.child").answer())[0] == 404


async def test_forms_are_negotiated_as_mesos_does(http: aiohttp.ClientSession, client: Client, parent: str) -> None:
    attach = {"container_id": container_id(parent)}
    streamed = {"Accept": RECORDIO, "Message-Accept": JSON}
    for kind, headers, body, status in (
        ("GET_HEALTH", {"Accept": "text/html"}, {}, 406),
        ("GET_HEALTH", streamed, {}, 406),
        ("GET_HEALTH", {"Message-Accept": JSON}, {}, 406),
        ("ATTACH_CONTAINER_OUTPUT", {"Accept": RECORDIO, "Message-Accept": "text/html"}, attach, 406),
        ("GET_HEALTH", {"Message-Content-Type": JSON}, {}, 415),
        ("ATTACH_CONTAINER_INPUT", {}, {"type": "CONTAINER_ID", **attach}, 415),
    ):
        assert (await client.post(kind, headers=headers, **body))[0] == status, (kind, headers)
    for headers, data, status in (
        ({"Content-Type": RECORDIO}, b"", 400),
        ({"Content-Type": RECORDIO, "Message-Content-Type": "text/html"}, b"", 415),
        ({"Content-Type": RECORDIO, "Message-Content-Type": JSON}, b"", 400),
        ({"Content-Type": RECORDIO, "Message-Content-Type": JSON}, b"5\nab", 400),
        ({"Content-Type": RECORDIO, "Message-Content-Type": JSON}, b"nonsense", 400),
        ({"Content-Type": RECORDIO, "Message-Content-Type": JSON}, b"2\n{}", 400),
    ):
        async with http.post(client.url, data=data, headers=headers) as response:
            assert response.status == status, (data, await response.text())


async def test_a_new_agent_takes_up_nested_containers_and_ends_sessions(
    agent: LiveAgent, client: Client, parent: str
) -> None:
    assert (await client.post("LAUNCH_NESTED_CONTAINER", **nested(f"{parent}.stays", SLEEP)))[0] == 200
    async with client.session(f"{parent}.dies", "echo begun; exec sleep 600") as output:
        await output.until(b"begun")
        await agent.signal(signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await output.end()
    await agent.start()
    client = Client(client._http, f"http://127.0.0.1:{agent.port}")
    names = [line["container_id"] for line in await agent.get("/containers", show_nested="true")]
    assert names == [parent, "stays"]
    assert await client.post("KILL_NESTED_CONTAINER", container_id=container_id(f"{parent}.stays")) == (200, "")
    assert await client.wait(f"{parent}.stays") == signal.SIGKILL
    agent.kill("task")
    await agent.reaches("task", "TASK_KILLED")
    assert await agent.get("/containers", show_nested="true") == []
    assert os.listdir(agent.folder / "work" / "run" / "bundles") == []  # noqa: PTH208
