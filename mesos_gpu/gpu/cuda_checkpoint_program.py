"""Suspends CUDA processes by the driver's API: `cuda_checkpoint_program.py LIBRARY`, calls as JSON on standard input.

A program of its own, because a process that has asked CUDA once has the driver's nodes open until it ends. Each call is
`["state", PID]`, `["lock", PID, MS]`, `["checkpoint", PID]`, `["unlock", PID]`, `["restore", PID, [[WAS, NOW], ...]]`;
the answer is a list of `[CUresult, VALUE]`, which ends with the first call that fails, `state` excepted. Exit status 4,
with a sentence: this driver cannot do it. Source: NVIDIA's CUDA Driver API, "CUDA Checkpointing".
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from typing import Any

LACKING = 4
NAMES = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")


class LockArguments(ctypes.Structure):
    """CUcheckpointLockArgs."""

    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7))


class Pair(ctypes.Structure):
    """CUcheckpointGpuPair."""

    _fields_ = (("was", ctypes.c_ubyte * 16), ("now", ctypes.c_ubyte * 16))


class RestoreArguments(ctypes.Structure):
    """CUcheckpointRestoreArgs."""

    _fields_ = (
        ("pairs", ctypes.POINTER(Pair)),
        ("count", ctypes.c_uint),
        ("reserved", ctypes.c_char * (52 - ctypes.sizeof(ctypes.c_void_p))),
        ("more", ctypes.c_uint64),
    )


def _uuid(text: str) -> Any:
    return (ctypes.c_ubyte * 16)(*uuid.UUID(text.partition("-")[2]).bytes)


def _call(cuda: ctypes.CDLL, name: str, pid: int, *rest: Any) -> tuple[int, int | None]:
    if name == "state":
        state = ctypes.c_int(-1)
        code = cuda.cuCheckpointProcessGetState(pid, ctypes.byref(state))
        return code, state.value
    if name == "lock":
        return cuda.cuCheckpointProcessLock(pid, ctypes.byref(LockArguments(timeout_ms=int(rest[0])))), None
    if name == "restore":
        pairs = (Pair * len(rest[0]))(*(Pair(_uuid(was), _uuid(now)) for was, now in rest[0]))
        how = RestoreArguments(pairs=pairs, count=len(pairs))
        return cuda.cuCheckpointProcessRestore(pid, ctypes.byref(how)), None
    if name == "checkpoint":
        return cuda.cuCheckpointProcessCheckpoint(pid, None), None
    return cuda.cuCheckpointProcessUnlock(pid, None), None


def main(library: str) -> int:
    """Do the calls; return the exit status."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        print(f"there is no {library}: {error}", file=sys.stderr)
        return LACKING
    if not all(hasattr(cuda, f"cuCheckpointProcess{name}") for name in NAMES):
        print(f"{library} has no cuCheckpointProcess...: it needs driver 570 or newer", file=sys.stderr)
        return LACKING
    cuda.cuInit(0)  # where that fails, so do the calls, and say why
    answers = []
    for call in json.load(sys.stdin):
        code, value = _call(cuda, *call)
        answers.append([code, value])
        if code and call[0] != "state":
            break
    json.dump(answers, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
