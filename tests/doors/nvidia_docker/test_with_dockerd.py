"""nvidia-docker and its plugin with a real Docker Engine and a real podman."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.engine import IMAGE, RUN, Engine
from tests.support.doors.podman import Podman

pytestmark = pytest.mark.root

NEEDS = "doors-needs:latest"
VOLUME = "nvidia_driver_999.0-simulated"


class Plugin:
    """The program, for one engine and agent."""

    def __init__(self, engine: Engine, bank: Bank, folder: Path) -> None:
        words = ["-s", str(engine.plugins), "-d", str(folder / "volumes"), "-l", "127.0.0.1:0", "--agent", bank.url]
        program = [sys.executable, "-m", "mesos_gpu.doors.nvidia_docker.plugin", *words]
        self.process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = re.search(r"http://127.0.0.1:(\d+)", self.process.stderr.readline())
        assert found is not None
        self.port = int(found[1])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture
def plugin(asking: Engine, bank: Bank, tmp_path: Path) -> Iterator[Plugin]:
    made = Plugin(asking, bank, tmp_path)
    yield made
    names = asking.docker("ps", "-aq").stdout.split()
    if names:
        asking.docker("rm", "-f", *names)
    asking.docker("volume", "rm", "-f", VOLUME, check=False)
    assert made.stop() == 0
    assert not (asking.plugins / "nvidia-docker.sock").exists()


def nvidia_docker(engine: Engine, bank: Bank, *words: str, check: bool = True, **environ: str) -> Any:
    given = {**os.environ, "MESOS_GPU_AGENT": bank.url, "NV_DOCKER": f"docker -H unix://{engine.socket}", **environ}
    program = [sys.executable, "-m", "mesos_gpu.doors.nvidia_docker.cli"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, env=given, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done


async def test_a_volume_of_the_plugin_has_the_driver(asking: Engine, bank: Bank, plugin: Plugin) -> None:
    def use() -> str:
        asking.docker("volume", "create", "--driver=nvidia-docker", f"--name={VOLUME}")
        assert VOLUME in asking.docker("volume", "ls").stdout
        said = asking.run("-v", f"{VOLUME}:/usr/local/nvidia:ro", "--", "ls", "/usr/local/nvidia/bin").stdout
        asking.docker("volume", "rm", VOLUME)
        wrong = asking.docker("volume", "create", "--driver=nvidia-docker", "--name=nvidia_driver_1.0", check=False)
        assert "invalid volume version: nvidia_driver_1.0" in wrong.stderr
        return said

    assert "nvidia-smi" in await asyncio.to_thread(use)


async def test_nvidia_docker_runs_images_that_need_it_on_gpus_of_the_book(
    asking: Engine, bank: Bank, plugin: Plugin
) -> None:
    labels = (
        "--change",
        "LABEL com.nvidia.volumes.needed=nvidia_driver",
        "--change",
        "LABEL com.nvidia.cuda.version=8.0",
    )
    asking.docker("create", "--name", "maker", IMAGE, "true")
    asking.docker("commit", *labels, "maker", NEEDS)
    look = ("sh", "-c", "ls /dev | grep -E '^nvidia[0-9]'; /usr/local/nvidia/bin/nvidia-smi -L; sleep 600")
    run = ("run", "-d", "--name=web", *RUN, NEEDS, *look)
    await asyncio.to_thread(nvidia_docker, asking, bank, *run, NV_GPU="1 3")
    await bank.until_advertised(2)
    (lease,) = await bank.leases()
    assert (lease["door"], lease["holder"], [gpu["index"] for gpu in lease["gpus"]]) == ("nvidia-docker", "web", [1, 3])
    said = await bank.agent.until_async(lambda: _logs(asking), "GPU 1: Simulated")
    assert [line for line in said.split() if line.startswith("nvidia")] == ["nvidia1", "nvidia3"]
    # nvidia-docker has become docker, and that has ended: the container holds its GPUs, until it is removed.
    asking.docker("kill", "web")
    other = await asyncio.to_thread(nvidia_docker, asking, bank, *run, check=False, NV_GPU="3")
    assert (other.returncode, lease["gpus"][1]["uuid"] in other.stderr) == (1, True)
    assert bank.advertised() == 2
    asking.docker("rm", "web")
    await bank.until_advertised(4)
    # What needs no GPU is docker's alone.
    plain = await asyncio.to_thread(nvidia_docker, asking, bank, "run", "--rm", *RUN, IMAGE, "ls", "/dev")
    assert "nvidia" not in plain.stdout
    asked = await asyncio.to_thread(nvidia_docker, asking, bank, "version")
    assert asked.stdout.startswith("NVIDIA Docker: 1.0.1\n\n")
    newer = ("--change", "LABEL com.nvidia.cuda.version=99.0")
    asking.docker("commit", *labels[:2], *newer, "maker", "doors-newer:latest")
    refused = await asyncio.to_thread(nvidia_docker, asking, bank, "run", "doors-newer:latest", check=False)
    assert (refused.returncode, "12.4 < image 99.0" in refused.stderr) == (1, True)


async def _logs(engine: Engine) -> str:
    return engine.docker("logs", "web").stdout


async def test_another_machines_plugin_is_asked_over_http(asking: Engine, bank: Bank, plugin: Plugin) -> None:
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{plugin.port}{path}") as answer:
                return answer.status, await answer.text()

        status, text = await get("/v1.0/gpu/info")
        assert (status, text.count("Device #")) == (200, 4)
        assert (await get("/gpu/status"))[1].startswith("\nDevice #0\n  Power:        25 / 300 W\n")
        status, line = await get("/docker/cli?dev=2&vol=nvidia_driver")
        assert (status, line.endswith("/nvidia2:/dev/nvidia2"), VOLUME in line) == (200, True, True)
        assert await get("/docker/cli?dev=9") == (400, "invalid device: 9\n")
        assert (await get("/nothing"))[0] == 404
    await asyncio.to_thread(asking.docker, "run", "-d", "--name=web", *RUN, *line.split(), IMAGE, "sleep", "600")
    assert "nvidia2" in asking.docker("exec", "web", "ls", "/dev").stdout
    # The command asks it by itself where NV_HOST says so, and does not take a refusal for arguments.
    asking.docker("create", "--name", "maker", IMAGE, "true")
    asking.docker("commit", "--change", "LABEL com.nvidia.volumes.needed=nvidia_driver", "maker", NEEDS)
    asked = {"NV_HOST": f"http://127.0.0.1:{plugin.port}", "NV_GPU": "0"}
    run = ("run", "--rm", *RUN, NEEDS, "ls", "/dev")
    assert "nvidia0" in (await asyncio.to_thread(nvidia_docker, asking, bank, *run, **asked)).stdout
    wrong = await asyncio.to_thread(nvidia_docker, asking, bank, *run, check=False, **{**asked, "NV_GPU": "9"})
    assert "400: invalid device: 9" in wrong.stderr, "as the original answers"


SSH = """#!{python}
import json, re, socket, sys, threading
with open({calls!r}, "w") as calls:
    json.dump(sys.argv[1:], calls)
if {status}:
    sys.exit({status})
local, host, remote = re.fullmatch(r"127.0.0.1:(\\d+):(localhost):(\\d+)", sys.argv[sys.argv.index("-L") + 1]).groups()
server = socket.create_server(("127.0.0.1", int(local)))

def carry(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)

while True:
    near, _ = server.accept()
    far = socket.create_connection((host, int(remote)))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
"""


def an_ssh(folder: Path, status: int = 0) -> Path:
    """Make a program `ssh` that carries connections as its -L says, or fails; return where it writes its words."""
    folder.mkdir()
    calls, program = folder / "calls", folder / "ssh"
    program.write_text(SSH.format(python=sys.executable, calls=str(calls), status=status))
    program.chmod(0o755)
    return calls


async def test_another_machines_plugin_is_asked_through_ssh(
    asking: Engine, bank: Bank, plugin: Plugin, tmp_path: Path
) -> None:
    asking.docker("create", "--name", "maker", IMAGE, "true")
    asking.docker("commit", "--change", "LABEL com.nvidia.volumes.needed=nvidia_driver", "maker", NEEDS)
    calls = an_ssh(tmp_path / "ssh")
    far = {"NV_HOST": f"ssh://gpu@far.example:2222:{plugin.port}", "NV_GPU": "3"}
    run = ("run", "--rm", *RUN, NEEDS, "ls", "/dev")
    done = await asyncio.to_thread(
        nvidia_docker, asking, bank, *run, **far, PATH=f"{tmp_path / 'ssh'}:{os.environ['PATH']}"
    )
    assert [name for name in done.stdout.split() if re.fullmatch(r"nvidia\d", name)] == ["nvidia3"]
    words = json.loads(calls.read_text())
    assert words[:5] == ["-N", "-o", "ExitOnForwardFailure=yes", "-p", "2222"]
    assert words[5:] == ["-L", words[6], "gpu@far.example"]
    assert await bank.leases() == [], "the other machine's plugin named the GPU; no lease is taken here"
    an_ssh(tmp_path / "no-ssh", status=255)
    path = f"{tmp_path / 'no-ssh'}:{os.environ['PATH']}"
    refused = await asyncio.to_thread(nvidia_docker, asking, bank, *run, check=False, **far, PATH=path)
    assert refused.returncode == 1
    assert "ssh" in refused.stderr


async def test_podman_has_the_volume_without_a_daemon(asking: Engine, bank: Bank, plugin: Plugin) -> None:
    podman = Podman()
    podman.configure(f'[engine.volume_plugins]\n"nvidia-docker" = "{asking.plugins}/nvidia-docker.sock"\n')
    try:
        await asyncio.to_thread(podman.make_image)
        await asyncio.to_thread(podman, "volume", "create", "--driver=nvidia-docker", VOLUME)
        await asyncio.to_thread(podman.start, "one", "-v", f"{VOLUME}:/usr/local/nvidia:ro")
        said = await asyncio.to_thread(podman, "exec", "one", "ls", "/usr/local/nvidia/bin")
        assert "nvidia-smi" in said.stdout
        await asyncio.to_thread(podman, "rm", "-f", "-t", "0", "one")
        await asyncio.to_thread(podman, "volume", "rm", VOLUME)
        wrong = await asyncio.to_thread(podman, "volume", "create", "--driver=nvidia-docker", "x_1", check=False)
        assert "unsupported volume: x_1" in wrong.stderr
    finally:
        podman.stop()
