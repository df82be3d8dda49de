"""Tasks and task groups in a network of real CNI plugins, by the agent program."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import unused_port

from mesos_gpu.mesos.messages import devolve
from tests.support.agent.documents import FRAMEWORK_ID, scalar, task
from tests.support.agent.live import FRAMEWORK, LiveAgent, live_agent
from tests.support.container.cni_networks import PLUGINS, CniNetwork, cni_network

pytestmark = pytest.mark.root

SERVE = (
    'exec python3 -c \'import http.server as h; s = h.HTTPServer(("", 80), h.SimpleHTTPRequestHandler); '
    'print("ready", flush=True); s.serve_forever()\''
)
SOON = {"delay_seconds": 0, "interval_seconds": 0.05, "grace_period_seconds": 60, "consecutive_failures": 1000}


@pytest.fixture
def network(tmp_path: Path) -> Iterator[CniNetwork]:
    with cni_network(tmp_path) as network:
        network.write_chain()
        yield network


def flags(network: CniNetwork) -> tuple[str, ...]:
    isolation = "cgroups/cpu,cgroups/mem,cgroups/devices,filesystem/linux,gpu/nvidia,network/cni"
    dirs = (f"--network_cni_config_dir={network.configs}", f"--network_cni_plugins_dir={PLUGINS}")
    return f"--isolation={isolation}", *dirs


@pytest.fixture
async def agent(tmp_path: Path, network: CniNetwork) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path, *flags(network)) as live:
        yield live


def addresses(status: dict[str, Any]) -> list[str]:
    infos = status["container_status"].get("network_infos", [])
    return [address["ip_address"] for info in infos for address in info["ip_addresses"]]


def fetched(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        return str(answer.read().decode())


def launch_pod(agent: LiveAgent, network: CniNetwork, port: int) -> None:
    """Launch a group of two tasks in the network, `server` with its port 80 at this one of the host, and `client`."""
    pod = {
        "type": "DEFAULT",
        "executor_id": {"value": "pod"},
        "framework_id": {"value": FRAMEWORK_ID},
        "resources": [scalar("cpus", 0.1), scalar("mem", 64.0), scalar("disk", 8.0)],
        "container": {"type": "MESOS", "network_infos": [network.info((port, 80))]},
    }
    check = {"type": "HTTP", "http": {"port": 80, "scheme": "http"}, **SOON}
    server = task("server", f"echo $MESOS_CONTAINER_IP > index.html; {SERVE}", health_check=check)
    group = {"tasks": [devolve("mesos.TaskInfo", one) for one in (server, task("client", "exec sleep 600"))]}
    executor = devolve("mesos.ExecutorInfo", pod)
    document = {"framework": FRAMEWORK, "executor": executor, "task_group": group, "launch_executor": True}
    agent.master.send("RunTaskGroupMessage", document)


async def until_healthy(agent: LiveAgent, task_id: str) -> None:
    await agent.master.until(lambda: any(u["status"].get("healthy") for u in agent.master.updates(task_id)))


async def test_tasks_and_groups_in_a_network_are_checked_there_and_keep_it_when_the_agent_is_killed(
    agent: LiveAgent, network: CniNetwork
) -> None:
    ports = [unused_port() for _ in range(3)]
    for name, port, kind in (("a", ports[0], "HTTP"), ("b", ports[1], "TCP")):
        check = {"type": kind, kind.lower(): {"port": 80, **({"scheme": "http"} if kind == "HTTP" else {})}, **SOON}
        container = {"type": "MESOS", "hostname": f"host-{name}", "network_infos": [network.info((port, 80))]}
        agent.run(name, SERVE, container=container, health_check=check)
    launch_pod(agent, network, ports[2])
    agent.run("lost", "true", container={"type": "MESOS", "network_infos": [{"name": "nowhere"}]})
    failed = await agent.reaches("lost", "TASK_FAILED")
    assert failed["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"
    assert "CNI network 'nowhere'" in failed["message"]

    for name in "ab":
        starting, running = await agent.reaches(name, "TASK_STARTING"), await agent.reaches(name, "TASK_RUNNING")
        assert addresses(starting) == []
        assert addresses(running)[0].startswith(f"{network.prefix}.")
        assert running["container_status"]["network_infos"][0]["name"] == network.name
        await until_healthy(agent, name)
    (address,) = addresses(await agent.reaches("server", "TASK_RUNNING"))
    assert addresses(await agent.reaches("client", "TASK_RUNNING")) == [address], "a group has one address"
    await until_healthy(agent, "server")  # by its executor, which is in the network, too
    assert page(ports[2]) == f"{address}\n", "what its tasks are told is its address"
    assert [fetched(port) for port in ports] == [200, 200, 200], "all of them with the same port inside"
    before = addresses(await agent.reaches("a", "TASK_RUNNING"))

    assert await agent.signal(signal.SIGKILL) == -signal.SIGKILL
    await agent.start(*flags(network), "--executor_reregistration_timeout=15secs")
    assert [fetched(port) for port in ports] == [200, 200, 200]
    shown = await agent.get("/containers")
    assert sorted(len(one["status"].get("network_infos", [])) for one in shown) == [1, 1, 1]
    for name in ("a", "b", "client"):
        agent.kill(name)
    assert addresses(await agent.reaches("a", "TASK_KILLED")) == before
    await agent.reaches("b", "TASK_KILLED")
    await agent.reaches("client", "TASK_KILLED")
    await agent.ends("server")
    await agent.until(lambda: network.left() == [])
