"""A folder as the driver volume of simulated GPUs is, with the program that plays them: both are real."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.wirings import PAIRS
from mesos_gpu.isolator.driver_tree import gpu_table, link_table
from mesos_gpu.simulated.client import Cards
from mesos_gpu.simulated.libraries import CUDA, NVML, simulated_library
from mesos_gpu.simulated.running import RunningCards

PROGRAM = Path(__file__).with_name("cuda_program.py")


class Played:
    """`count` GPUs of so much memory. Their nodes are files: who may open them may use the GPU."""

    def __init__(self, folder: Path, count: int = 2, memory_mib: int = 1024, topology: str = PAIRS) -> None:
        self.volume, self.dev = folder / "volume", folder / "dev"
        (self.volume / "lib64").mkdir(parents=True)
        self.dev.mkdir()
        driver = SimulatedDriver(count, make=Make(memory_mib=memory_mib, topology=topology))
        self.gpus = driver.gpus()
        (self.volume / "gpus").write_text(gpu_table(self.gpus, driver.version))
        (self.volume / "links").write_text(link_table(self.gpus, driver.wiring))
        for name in (CUDA, NVML):
            library = simulated_library(name)
            assert library is not None
            (self.volume / "lib64" / name).write_bytes(library)
        for gpu in self.gpus:
            (self.dev / f"nvidia{gpu.minor}").touch()
        sizes = {gpu.minor: memory_mib << 20 for gpu in self.gpus}
        self.cards = RunningCards(sizes, folder / "cards", f"nobody-{uuid.uuid4().hex[:8]}", {})
        self.cards.begin()
        self.cards.start(self.volume)
        self._programs: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> Mapping[str, str]:
        """Return the variables with which a program finds the libraries and the nodes."""
        return {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.volume / "lib64"),
            "MESOS_GPU_DEV": str(self.dev),
            **more,
        }

    def run(self, text: str, **more: str) -> str:
        """Run a program to its end; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", text],
            env={**self.environment(**more), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def start(self, words: Sequence[str], **more: str) -> subprocess.Popen[str]:
        """Start the program that keeps a card busy; it is killed at the end."""
        program = subprocess.Popen(
            [sys.executable, "-S", PROGRAM, *words],
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._programs.append(program)
        return program

    def asked(self) -> Cards:
        """Return a connection to the cards."""
        return Cards(self.cards.control)

    def end(self) -> None:
        """End everything."""
        for program in self._programs:
            program.kill()
            program.wait(30)
            assert program.stdout is not None
            program.stdout.close()
        self.cards.close(keep=False)


def never_ends() -> str:
    """Return a command that begins kernels of minutes, which CUDA waits for in vain when it is to be suspended."""
    return f"exec {sys.executable} -S {PROGRAM} 1000 300000000"
