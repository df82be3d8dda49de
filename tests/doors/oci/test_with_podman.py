"""`mesos-gpu door install podman`: an OCI hook file by which podman takes GPUs from the book."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.podman import Podman

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("engine")]


def install(door: str, folder: Path, bank: Bank) -> str:
    environ = {**os.environ, "MESOS_GPU_AGENT": bank.url}
    words = [door, f"--prefix={folder}/bin", f"--hooks-dir={folder}/hooks", f"--settings={folder}/doors.json"]
    command = [sys.executable, "-m", "marathon_cli", "door", "install", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_podmans_hook_takes_what_the_environment_asks_for(bank: Bank, tmp_path: Path) -> None:
    await asyncio.to_thread(install, "podman", tmp_path, bank)
    podman = Podman()
    podman.configure(f'[engine]\nhooks_dir = ["{tmp_path}/hooks"]\n')
    try:
        await asyncio.to_thread(podman.make_image)
        await asyncio.to_thread(podman.start, "one", "-e", "NVIDIA_VISIBLE_DEVICES=1")
        await bank.until_advertised(3)
        (lease,) = await bank.leases()
        assert (lease["door"], [gpu["index"] for gpu in lease["gpus"]]) == ("podman", [1])
        said = podman("exec", "one", "sh", "-c", "ls /dev | grep -E '^nvidia[0-9]'; nvidia-smi -L").stdout
        assert (said.split()[0], said.count("UUID")) == ("nvidia1", 1)
        refused = await asyncio.to_thread(podman.start, "two", "-e", "NVIDIA_VISIBLE_DEVICES=1", check=False)
        assert "podman: " in refused.stderr, "the holder"
        await asyncio.to_thread(podman.start, "plain")
        assert "nvidia" not in podman("exec", "plain", "ls", "/dev").stdout
        podman("rm", "-f", "-t", "0", "one")
        await bank.until_advertised(4)
    finally:
        podman.stop()


async def test_podman_finds_the_hook_file_where_it_looks_by_itself(bank: Bank, tmp_path: Path) -> None:
    # A copy of its own of that place: the machine's is left as it is, whatever happens here.
    place = Path("/usr/share/containers")
    podman = Podman([place])
    words = ["podman", f"--prefix={tmp_path}/bin", f"--settings={tmp_path}/doors.json", f"--agent={bank.url}"]
    try:
        said = await asyncio.to_thread(podman.beside, sys.executable, "-m", "marathon_cli", "door", "install", *words)
        assert f"{place}/oci/hooks.d/mesos-gpu.json\n" in said.stdout
        assert not (place / "oci/hooks.d/mesos-gpu.json").exists()
        await asyncio.to_thread(podman.make_image)
        await asyncio.to_thread(podman.start, "one", "-e", "NVIDIA_VISIBLE_DEVICES=2")
        await bank.until_advertised(3)
        assert "nvidia2" in podman("exec", "one", "ls", "/dev").stdout
        podman("rm", "-f", "-t", "0", "one")
        await bank.until_advertised(4)
    finally:
        podman.stop()
