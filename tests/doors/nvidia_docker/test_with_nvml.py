"""nvidia-docker-plugin over an agent whose GPUs NVML reports: what is shown, byte for byte, and UVM's loading.

NVML is a library of our own that answers from a file; nvidia-modprobe is a program of that name that makes nodes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from mesos_gpu.simulated.libraries import NVML, simulated_library
from tests.support.agent.live import LiveAgent, new_master
from tests.support.doors.golden import INFO_TEXT, STATUS_TEXT
from tests.support.forked import Service, executed

pytestmark = pytest.mark.root

CARD = {
    **{"name": "Tesla P100-PCIE-16GB", "bus": "00000000:3B:00.0", "total": 16276, "used": 2310, "brand": 2},
    **{"arch": "6.0", "cores": 3584, "limit": 250000, "milliwatts": 61900, "celsius": 41, "util": 12},
    **{"memory_util": 3, "enc": 0, "dec": 0, "clock": "1189:715", "clock_max": "1328:715", "pcie": "3:16"},
    **{"bar1": "2:16384", "throughput": "4100:1900", "ecc": 1, "ecc_errors": "0:0:0", "bus_width": 4096},
}
# A /dev of its own, with what every program needs and nothing of NVIDIA's, and its pseudo terminals.
OWN_DEV = """
set -e
mkdir -p "$0/dev"; mount -t tmpfs none "$0/dev"; mkdir "$0/dev/pts" "$0/dev/shm"
for one in null zero full random urandom tty; do cp -a "/dev/$one" "$0/dev/"; done
mount --bind /dev/pts "$0/dev/pts"; ln -s pts/ptmx "$0/dev/ptmx"; ln -s /proc/self/fd "$0/dev/fd"
mount --move "$0/dev" /dev
exec "$@"
"""
MODPROBE = """#!/bin/sh
echo "$@" >>{calls}
[ -e /dev/nvidia-uvm ] || mknod -m 666 /dev/nvidia-uvm c 511 0
[ -e /dev/nvidia-uvm-tools ] || mknod -m 666 /dev/nvidia-uvm-tools c 511 1
"""


class Machine(LiveAgent):
    """An agent on a machine with two cards that NVML knows."""

    def launch(self, log: int, *flags: str) -> Service:
        words = self.command("--gpu_driver=nvml", *flags)
        return executed(["unshare", "-m", "sh", "-c", OWN_DEV, str(self.folder), *words], log)

    def answers(self, **more: object) -> None:
        """Have NVML say this of the first card from now on; the second says little."""
        known = {"count": 2, "driver": "390.48", "cuda": 9010, "level.0.1": 50, "gpu.0.uuid": "GPU-1d0f"}
        known |= {f"gpu.0.{name}": value for name, value in (CARD | more).items()}
        known |= {"gpu.1.bus": "00000000:AF:00.0"}
        aside = self.folder / "answers.new"
        aside.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
        aside.rename(self.folder / "answers")


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    library = simulated_library()
    assert library is not None, "needs a C compiler: apt-get install gcc libc6-dev"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / NVML).write_bytes(library)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-modprobe"
    program.write_text(MODPROBE.format(calls=tmp_path / "calls"))
    program.chmod(0o755)
    master = await new_master()
    made = Machine(tmp_path, master)
    made.answers()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    monkeypatch.setenv("SIMULATED_NVML", str(tmp_path / "answers"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    try:
        await made.start()
        yield made
    finally:
        try:
            await made.end()
        finally:
            await master.stop()
    assert made.leftovers() == []


def plugin(machine: Machine, place: Path) -> subprocess.Popen[str]:
    """Start the plugin with a /dev of its own, without NVIDIA's nodes."""
    place.mkdir()
    words = ["-s", str(place), "-d", str(place / "volumes"), "-l", "127.0.0.1:0"]
    words += ["--agent", f"http://127.0.0.1:{machine.port}"]
    program = [sys.executable, "-m", "mesos_gpu.doors.nvidia_docker.plugin", *words]
    command = ["unshare", "-m", "sh", "-c", OWN_DEV, str(place), *program]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def computing() -> subprocess.Popen[str]:
    """Start a process that is called python3 and stays until it is ended."""
    words = ["python3", "-S", "-c", 'import sys; print("", flush=True); sys.stdin.read()']
    return subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def stopped(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30) is not None


async def test_info_and_status_are_the_golden_texts_and_uvm_is_loaded_before(machine: Machine) -> None:
    assert (machine.folder / "calls").read_text() == "-u -c 0\n", "the agent had UVM loaded"
    process = plugin(machine, machine.folder / "plugin")
    worker = computing()
    try:
        assert process.stderr is not None
        assert worker.stdout is not None
        port = re.search(r"http://127.0.0.1:(\d+)", process.stderr.readline())
        assert port is not None
        assert (machine.folder / "calls").read_text().splitlines()[1:] == ["-u -c=0"], "as the original calls it"
        assert worker.stdout.readline() == "\n"
        machine.answers(**{"process.0": f"{worker.pid}:2303:C:12"})
        async with aiohttp.ClientSession() as session:

            async def get(path: str) -> str:
                async with session.get(f"http://127.0.0.1:{port[1]}{path}") as answer:
                    assert answer.status == 200
                    return await answer.text()

            # NVML has no word for the size of the second cache: only a program that computes on the card learns it.
            first = (await get("/gpu/info")).partition("Device #1")[0]
            assert first == INFO_TEXT.replace("L2 Cache:   4096 KiB", "L2 Cache:   N/A")
            text = await machine.until_async(lambda: get("/gpu/status"), "python3")
            golden = STATUS_TEXT.replace("4711", str(worker.pid))
            assert text.partition("Device #1")[0] == golden
            shown = await get("/gpu/status/json")
            assert shown.startswith('{"Devices":[{"Power":61,"Temperature":41,"Utilization":{"GPU":12,"Memory":3,')
            assert f'"Processes":[{{"PID":{worker.pid},"Name":"python3","MemoryUsed":2303}}]' in shown
            assert shown.endswith('"Processes":null}]}\n')
    finally:
        stopped(process)
        worker.kill()
        worker.communicate(timeout=30)
    assert process.returncode == 0
    # Without that program it says what is missing.
    (machine.folder / "bin" / "nvidia-modprobe").unlink()
    without = plugin(machine, machine.folder / "without")
    try:
        said = without.communicate(timeout=120)[1]
    finally:
        without.kill()
    assert without.returncode == 1
    assert "nvidia-modprobe" in said
