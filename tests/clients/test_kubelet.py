"""The program mesos-gpu-device-plugin, as the manifest starts it, under a kubelet that knows nothing of mesos-gpu.

The kubelet (tests/clients/programs/kubelet.py) runs on code that protoc made of Kubernetes' published messages: neither
PyPI nor npm has a kubelet, nor any other program that speaks its interfaces.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesos_gpu.doors.common.agent import AgentAddress, Book
from tests.clients.environments import PROGRAMS, Environment
from tests.support.agent.live import live_agent
from tests.support.doors.bank import Bank
from tests.support.places import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

MANIFEST = ROOT / "examples" / "device-plugin-daemonset.yaml"
# The folders that the manifest mounts, in the plugin's own mounts.
MOUNTED = """
set -e
mount -t tmpfs none /var/lib
for one in device-plugins pod-resources; do
    mkdir -p "/var/lib/kubelet/$one"; mount --bind "$0/$one" "/var/lib/kubelet/$one"
done
exec "$@"
"""


@pytest.fixture(scope="module")
def protoc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("protoc") / "venv")
    environment.begin("grpcio-tools==1.85.1")
    try:
        environment.finish()
        yield environment
    finally:
        environment.close()


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    async with live_agent(tmp_path) as agent:
        yield Bank(agent)


class Kubelet:
    """The stranger: a process that is asked by lines."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        for name in ("device-plugins", "pod-resources"):
            (folder / name).mkdir()
        self.process = subprocess.Popen(
            [python, "-B", str(PROGRAMS / "kubelet.py"), str(folder)],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def ask(self, *words: Any) -> Any:
        answer = await asyncio.to_thread(self._ask, words)
        assert "said" in answer, answer
        return answer["said"]

    async def refused(self, *words: Any) -> Any:
        return (await asyncio.to_thread(self._ask, words))["refused"]

    def _ask(self, words: tuple[Any, ...]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))


@pytest.fixture
def kubelet(protoc: Environment) -> Iterator[Kubelet]:
    # A short path: sockets have names of 107 bytes at most.
    with tempfile.TemporaryDirectory() as folder:
        made = Kubelet(protoc.python, Path(folder))
        yield made
        made.process.kill()
        made.process.communicate(timeout=60)


def plugin(bank: Bank, kubelet: Kubelet) -> subprocess.Popen[str]:
    """Start the program by the manifest's command line, at the agent of the test."""
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    name, agent = container["command"]
    assert agent == "--agent=http://127.0.0.1:5051"
    words = [str(Path(sys.executable).parent / name), f"--agent={bank.url}"]
    command = ["unshare", "-m", "sh", "-c", MOUNTED, str(kubelet.folder), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


async def test_the_program_serves_a_kubelet_that_starts_again_and_ends_when_told(bank: Bank, kubelet: Kubelet) -> None:
    await kubelet.ask("start")
    process = plugin(bank, kubelet)
    try:
        registered = await kubelet.ask("registered")
        assert (registered["version"], registered["resource_name"]) == ("v1beta1", "nvidia.com/gpu")
        assert registered["asked"] == registered["options"] == {"get_preferred_allocation_available": True}
        uuids = await kubelet.ask("listed", 4)
        names = [gpu["uuid"] for gpu in await bank.agent.get("/gpus")]
        assert sorted(uuids) == sorted(names)

        preferred = await kubelet.ask("prefer", names[1:], 2)
        assert sorted(preferred["container_responses"][0]["deviceIDs"]) == sorted(names[2:]), "which NVLinks connect"

        (answer,) = (await kubelet.ask("allocate", names[2:]))["container_responses"]
        assert sorted(answer["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(names[2:])
        paths = {spec["container_path"]: spec["permissions"] for spec in answer["devices"]}
        assert paths.keys() >= {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia2", "/dev/nvidia3"}
        assert {"/dev/nvidia0", "/dev/nvidia1"}.isdisjoint(paths)
        assert answer["mounts"][0]["container_path"] == "/usr/local/nvidia"
        assert answer["mounts"][0]["read_only"] is True
        await bank.until_advertised(2)
        (lease,) = await bank.leases()
        assert (lease["door"], lease["watched"]["pids"]) == ("kubernetes", [process.pid])

        # What another door holds is unhealthy, and refused with who has it.
        taken = await bank.lend(door="docker", holder="web", gpus=[names[0]], pid=os.getpid())
        assert (await kubelet.ask("listed", 3))[-1] == names[0], "and not left out"
        code, words = await kubelet.refused("allocate", [names[0]])
        assert code == "RESOURCE_EXHAUSTED"
        assert "docker: web" in words
        await asyncio.to_thread(Book(AgentAddress(bank.url)).give_back, taken["id"])
        assert len(await kubelet.ask("listed", 4)) == 4

        # The kubelet starts again: another socket of that name, and it is told of the same GPUs.
        await kubelet.ask("pods", *names[2:])
        await kubelet.ask("start")
        again = await kubelet.ask("registered")
        assert again["endpoint"] != registered["endpoint"]
        assert sorted(await kubelet.ask("listed", 4)) == sorted(names)
        assert [each["id"] for each in await bank.leases()] == [lease["id"]], "its pod runs on"
    finally:
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert [path.name for path in (kubelet.folder / "device-plugins").iterdir()] == ["kubelet.sock"], said
    await bank.until_advertised(4)


async def test_node_tools_read_what_the_agent_tells_of_its_tasks(bank: Bank, kubelet: Kubelet) -> None:
    socket = kubelet.folder / "pods.sock"
    await bank.agent.signal(signal.SIGTERM)
    await bank.agent.start(f"--pod_resources_socket={socket}")
    bank.agent.run("train", "exec sleep 600", gpus=2)
    await bank.agent.reaches("train", "TASK_RUNNING")
    listed, there = await kubelet.ask("ask_pods", str(socket))
    (pod,) = listed["pod_resources"]
    (devices,) = pod["containers"][0]["devices"]
    assert (pod["name"], devices["resource_name"], len(devices["device_ids"])) == ("train", "nvidia.com/gpu", 2)
    assert len(there["devices"][0]["device_ids"]) == 4
