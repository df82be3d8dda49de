"""`docker run --gpus` and `--runtime=nvidia` on a stock Docker Engine: what they get, and what is refused."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.engine import IMAGE, RUN, Engine

pytestmark = pytest.mark.root

LOOK = "ls /dev | grep -E '^nvidia[0-9]'; nvidia-smi -L"
MIDST = "UUID"


@pytest.fixture(autouse=True)
def nothing_runs_on(engine: Engine) -> Iterator[None]:
    yield
    ids = engine.docker("ps", "-aq").stdout.split()
    if ids:
        engine.docker("rm", "-f", *ids)


def start(engine: Engine, name: str, *options: str, check: bool = True) -> Any:
    return engine.docker("run", "-d", "--name", name, *RUN, *options, IMAGE, "sleep", "600", check=check)


def seen(engine: Engine, name: str) -> set[str]:
    """Return the GPUs whose nodes a container has."""
    return set(engine.docker("exec", name, "sh", "-c", "ls /dev | grep -E '^nvidia[0-9]'").stdout.split())


def opens(engine: Engine, name: str, minor: int) -> str:
    """Return what opening a GPU gives in a container, by a node of its own making."""
    node = f"/tmp/n{minor}"
    script = f"busybox mknod {node} c 195 {minor}; dd if={node} count=0 2>&1"
    return engine.docker("exec", name, "sh", "-c", script, check=False).stdout


async def test_gpus_takes_so_many_and_the_walls_are_real(asking: Engine, bank: Bank) -> None:
    held = await bank.lend(door="kubernetes", gpus=["0"], pid=1)
    await asyncio.to_thread(start, asking, "two", "--gpus=2")
    await bank.until_advertised(1)
    (lease,) = [lease for lease in await bank.leases() if lease["id"] != held["id"]]
    given = {gpu["minor"] for gpu in lease["gpus"]}
    assert (lease["door"], lease["holder"], len(given), 0 in given) == ("docker", "two", 2, False)
    assert lease["watched"]["cgroups"]
    assert seen(asking, "two") == {f"nvidia{minor}" for minor in given}
    for minor in range(4):
        # A simulated GPU has no driver behind it: what the device policy lets through ends there.
        assert ("Operation not permitted" in opens(asking, "two", minor)) == (minor not in given)
    said = asking.docker("exec", "two", "sh", "-c", "/usr/local/nvidia/bin/nvidia-smi -L; nvidia-smi -L").stdout
    assert said.count("UUID") == 4
    # It is given back with the container, and taken again when that is started again.
    asking.docker("kill", "two")
    await bank.until_advertised(3)
    await asyncio.to_thread(asking.docker, "start", "two")
    await bank.until_advertised(1)


async def test_named_gpus_are_those_and_a_refusal_says_who_holds_them(asking: Engine, bank: Bank) -> None:
    await asyncio.to_thread(start, asking, "one", '--gpus="device=1,3"')
    await bank.until_advertised(2)
    assert seen(asking, "one") == {"nvidia1", "nvidia3"}
    refused = await asyncio.to_thread(start, asking, "other", '--gpus="device=3"', check=False)
    assert refused.returncode == 125
    (held,) = [gpu["uuid"] for lease in await bank.leases() for gpu in lease["gpus"] if gpu["index"] == 3]
    assert held in refused.stderr
    assert "docker: one" in refused.stderr, "the holder"
    assert held in (await asyncio.to_thread(start, asking, "all", "--gpus=all", check=False)).stderr
    assert bank.advertised() == 2, "who was refused holds nothing"
    await asyncio.to_thread(start, asking, "none")
    assert seen_nothing(asking, "none")


def seen_nothing(engine: Engine, name: str) -> bool:
    return "nvidia" not in engine.docker("exec", name, "ls", "/dev").stdout


async def test_all_are_all_of_them(asking: Engine, bank: Bank) -> None:
    await asyncio.to_thread(start, asking, "all", "--gpus=all")
    await bank.until_advertised(0)
    assert seen(asking, "all") == {f"nvidia{minor}" for minor in range(4)}


async def test_a_killed_agent_holds_to_it_and_no_agent_gives_nothing(asking: Engine, bank: Bank) -> None:
    await asyncio.to_thread(start, asking, "two", "--gpus=2")
    await bank.agent.signal(signal.SIGKILL)
    refused = await asyncio.to_thread(start, asking, "late", "--gpus=1", check=False)
    assert refused.returncode != 0
    assert bank.url in refused.stderr
    await bank.agent.start()
    assert bank.advertised() == 2
    asking.docker("rm", "-f", "two")
    await bank.until_advertised(4)


async def test_the_runtime_gives_what_the_environment_asks_for(asking: Engine, bank: Bank) -> None:
    run = ("--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=2")
    await asyncio.to_thread(start, asking, "one", *run)
    await bank.until_advertised(3)
    (lease,) = await bank.leases()
    assert lease["door"] == "nvidia-runtime"
    assert seen(asking, "one") == {"nvidia2"}
    assert "not permitted" in opens(asking, "one", 1)
    env = asking.docker("exec", "one", "cat", "/proc/1/environ").stdout.split("\0")
    assert f"NVIDIA_VISIBLE_DEVICES={lease['gpus'][0]['uuid']}" in env
    assert any(entry.startswith("PATH=") and entry.endswith(":/usr/local/nvidia/bin") for entry in env)
    # The lease is the container's: runc, which asked for it, has ended.
    await bank.agent.until_async(lambda: _pids(bank), "1 process")
    refused = await asyncio.to_thread(start, asking, "two", *run, check=False)
    assert "nvidia-runtime: " in refused.stderr, "the holder"
    plain = await asyncio.to_thread(start, asking, "plain", "--runtime=nvidia")
    assert plain.returncode == 0
    assert seen_nothing(asking, "plain")
    none = ("--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=none")
    await asyncio.to_thread(start, asking, "none", *none)
    assert "nvidiactl" in asking.docker("exec", "none", "ls", "/dev").stdout
    asking.docker("rm", "-f", "one")
    await bank.until_advertised(4)


async def _pids(bank: Bank) -> str:
    return f"{len((await bank.leases())[0]['watched']['pids'])} process"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("-e", "NVIDIA_REQUIRE_CUDA=cuda>=99.0"),
            "unsatisfied condition: cuda>=99.0 (NVIDIA_REQUIRE_CUDA); here cuda is",
        ),
        (("-e", "NVIDIA_REQUIRE_X=driver<1 cuda>12.4"), "unsatisfied condition: driver<1"),
        (("-e", "NVIDIA_REQUIRE_X=arch>=9.0"), "unsatisfied condition: arch>=9.0 (NVIDIA_REQUIRE_X); here arch is 8.0"),
        (
            ("-e", "NVIDIA_REQUIRE_X=brand=quadro brand=tesla,driver<550"),
            "unsatisfied condition: brand=quadro (NVIDIA_REQUIRE_X); here brand is Tesla",
        ),
        (("-e", "NVIDIA_REQUIRE_X=colour=red"), "invalid expression 'colour=red'"),
        (("-e", "NVIDIA_DRIVER_CAPABILITIES=utility,magic"), "unsupported capabilities found in 'utility,magic'"),
    ],
)
async def test_what_an_image_requires_and_is_not_here_is_refused(
    asking: Engine, bank: Bank, options: tuple[str, ...], why: str
) -> None:
    for way in (("--gpus=1",), ("--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=0")):
        refused = await asyncio.to_thread(start, asking, "req", *way, *options, check=False)
        assert why in refused.stderr
        asking.docker("rm", "-f", "req", check=False)
    assert await bank.leases() == []
    met = (
        "-e",
        "NVIDIA_REQUIRE_CUDA=cuda>=99 brand=TESLA,arch<9,driver>500",
        "-e",
        "NVIDIA_DRIVER_CAPABILITIES=compute",
    )
    await asyncio.to_thread(start, asking, "met", "--gpus=1", *met)
    assert "not found" in asking.docker("exec", "met", "sh", "-c", "nvidia-smi -L 2>&1", check=False).stdout


async def test_a_daemon_that_is_killed_leaves_its_containers_their_gpus(asking: Engine, bank: Bank) -> None:
    await asyncio.to_thread(start, asking, "one", "--gpus=1")
    await bank.until_advertised(3)
    (lease,) = await bank.leases()
    pid = int(asking.docker("inspect", "-f", "{{.State.Pid}}", "one").stdout)
    asking.kill()
    assert Path(f"/proc/{pid}").exists()
    assert await bank.leases() == [lease]
    await asyncio.to_thread(asking.start)
    await bank.until_advertised(4)


def test_the_daemon_has_runc(engine: Engine) -> None:
    assert subprocess.run(["runc", "--version"], capture_output=True).returncode == 0
