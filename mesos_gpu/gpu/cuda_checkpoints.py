"""Suspending the CUDA processes of a container, and bringing them back: a program of ours asks the driver.

Sources: NVIDIA's CUDA Driver API, "CUDA Checkpointing"; cuda.h, CUprocessState.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from mesos_gpu.errors import DeviceError, Unavailable
from mesos_gpu.gpu.cuda_checkpoint_program import LACKING

LOCK_MS = 10_000
"""How long a process may take to end the kernels that it has begun."""
LONGEST_S = 600.0
"""Memory is copied to the host's, or back: 80 GB at 1 GB/s and less."""
_PROGRAM = str(Path(__file__).with_name("cuda_checkpoint_program.py"))
_WORDS = {
    1: "it is no CUDA process, or has managed memory or memory of other processes",
    2: "there is not enough memory for it on the GPU",
    101: "the GPU is of another kind",
    401: "it is in another state",
    600: f"it has not ended its kernels within {LOCK_MS / 1000:g} s",
    800: "the driver does not permit it",
    801: "the driver cannot do it",
}


class State(IntEnum):
    """Of a process."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2


class CudaCheckpoints:
    """Asks the driver of one library. Calls block, for as long as the copying of memory takes.

    Each raises Unavailable where the driver has no checkpoints, DeviceError when it refuses, naming the process.
    """

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self._library = library

    def states(self, pids: Iterable[int]) -> Mapping[int, State]:
        """Return the state of those that are CUDA processes. Raises DeviceError for one that has failed for good."""
        asked = sorted(pids)
        found = {}
        for pid, (code, value) in zip(asked, self._ask([["state", pid] for pid in asked]), strict=True):
            if code:
                continue  # it has nothing on a GPU, or has ended
            if value not in tuple(State):
                raise DeviceError(f"CUDA says that process {pid} is in state {value}, which is none to go on from")
            found[pid] = State(value)
        return found

    def put_away(self, states: Mapping[int, State]) -> None:
        """Put processes away: all are locked before the first is copied, so that none waits for another."""
        running = [["lock", pid, LOCK_MS] for pid, state in states.items() if state is State.RUNNING]
        there = [["checkpoint", pid] for pid, state in states.items() if state is not State.CHECKPOINTED]
        self._do([*running, *there])

    def bring_back(self, states: Mapping[int, State], pairs: Sequence[tuple[str, str]] = ()) -> None:
        """Have processes run again, on the GPUs that `pairs` names by UUID beside those that they had."""
        away = [["restore", pid, pairs] for pid, state in states.items() if state is State.CHECKPOINTED]
        still = [["unlock", pid] for pid, state in states.items() if state is not State.RUNNING]
        self._do([*away, *still])

    def _do(self, calls: Sequence[Sequence[Any]]) -> None:
        answers = self._ask(calls)
        for (name, pid, *_), (code, _) in zip(calls, answers, strict=False):
            if code:
                raise DeviceError(f"CUDA cannot {name} process {pid}: {_WORDS.get(code, 'CUresult')} ({code})")

    def _ask(self, calls: Sequence[Sequence[Any]]) -> Sequence[tuple[int, int | None]]:
        if not calls:
            return ()
        try:
            done = subprocess.run(
                [sys.executable, "-S", _PROGRAM, self._library],
                input=json.dumps(calls),
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DeviceError(f"CUDA's checkpoints cannot be asked for: {error}") from error
        if done.returncode == LACKING:
            raise Unavailable(f"tasks cannot be suspended here: {done.stderr.strip()}")
        if done.returncode:
            raise DeviceError(f"CUDA's checkpoints: {done.stderr.strip() or f'status {done.returncode}'}")
        return [(code, value) for code, value in json.loads(done.stdout)]
