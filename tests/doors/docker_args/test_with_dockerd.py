"""`mesos-gpu docker-args` with a real Docker Engine: its line gives those GPUs and no other, and holds them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.engine import IMAGE, RUN, Engine
from tests.support.golden import Golden

pytestmark = pytest.mark.root

LOOK = "ls /dev | grep -E '^nvidia[0-9]'; /usr/local/nvidia/bin/nvidia-smi -L"


def mesos_gpu(engine: Engine, bank: Bank, *words: str, status: int = 0) -> Any:
    environ = {**os.environ, "MESOS_GPU_AGENT": bank.url, "DOCKER_HOST": f"unix://{engine.socket}"}
    program = [sys.executable, "-m", "marathon_cli"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, env=environ, timeout=60)
    assert done.returncode == status, done.stderr
    return shlex.split(done.stdout) if status == 0 else done.stderr


async def test_the_line_gives_what_was_lent_until_the_container_is_removed(
    engine: Engine, bank: Bank, golden: Golden
) -> None:
    words = await asyncio.to_thread(mesos_gpu, engine, bank, "docker-args", "--gpus", "2", "--holder", "me")
    assert [word for word in words if word.startswith("--cidfile=")]
    await bank.until_advertised(2)
    (lease,) = await bank.leases()
    assert (lease["door"], lease["holder"], lease["watched"]["pids"]) == ("docker-args", "me", [os.getpid()])
    said = await asyncio.to_thread(engine.docker, "run", "--name=first", *RUN, *words, IMAGE, "sh", "-c", LOOK)
    nodes = {f"nvidia{gpu['minor']}" for gpu in lease["gpus"]}
    assert {line for line in said.stdout.split() if line.startswith("nvidia")} == nodes
    assert all(gpu["uuid"] in said.stdout for gpu in lease["gpus"])
    assert said.stdout.count("UUID") == 2
    # It has stopped, and can be started again with what it was made with: it holds them still.
    await bank.agent.until_async(
        lambda: _container(bank), engine.docker("inspect", "-f", "{{.Id}}", "first").stdout[:12]
    )
    assert bank.advertised() == 2
    # The agent answers what else was asked for with who holds what; looking borrows nothing.
    why = await asyncio.to_thread(mesos_gpu, engine, bank, "docker-args", "--gpus=3", status=1)
    assert why == golden.hide(lease=lease["id"], container=(await _container(bank))[:12])
    shown = await asyncio.to_thread(mesos_gpu, engine, bank, "docker-args", "--look", "--device=0,1")
    assert len(await bank.leases()) == 1
    assert not [word for word in shown if word.startswith("--cidfile")]
    engine.docker("rm", "first")
    await bank.until_advertised(4)


async def _container(bank: Bank) -> str:
    (lease,) = await bank.leases()
    return str(lease["container"])


async def test_convert_takes_the_line_back(engine: Engine, bank: Bank) -> None:
    uuid = (await bank.agent.get("/gpus"))[3]["uuid"]
    words = await asyncio.to_thread(mesos_gpu, engine, bank, "docker-args", f"--device={uuid}")
    assert [(gpu["index"], lease["door"]) for lease in await bank.leases() for gpu in lease["gpus"]] == [
        (3, "docker-args")
    ]
    line = shlex.join(["docker", "run", *words, "busybox", "nvidia-smi"])
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "marathon_cli", "convert", "-"],
        input=line,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert '"gpus": 1' in done.stdout, done.stdout + done.stderr
    assert "--device" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--gpus=1", "--device=0"),
        ("--gpus=half",),
        ("--look", "--gpus=2"),
        ("--look", "--device=9"),
    ],
)
async def test_what_cannot_be_is_refused(engine: Engine, bank: Bank, words: tuple[str, ...], golden: Golden) -> None:
    assert await asyncio.to_thread(mesos_gpu, engine, bank, "docker-args", *words, status=1) == golden


def test_the_engine_is_there() -> None:
    assert shutil.which("docker"), "./run test installs docker.io"
