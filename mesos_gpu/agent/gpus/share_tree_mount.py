"""The agent's side of the tree of /proc/cgpu_km: starts the program that serves it, and answers what it asks."""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mesos_gpu import __version__
from mesos_gpu.agent.gpus.turns import Turns, said_of
from mesos_gpu.base.child import Child
from mesos_gpu.container.host.mounts import first_mounts
from mesos_gpu.errors import BadFlag, MesosGpuError

log = logging.getLogger(__name__)

PROGRAM = "mesos_gpu.agent.gpus.tree_program"
AGAIN_S = 1.0


def check_fuse() -> None:
    """Raise BadFlag, saying what is missing, where there is no FUSE."""
    flag = "gpu_share_tree"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        words = (
            f"needs FUSE, and /dev/fuse cannot be opened ({error.strerror}): modprobe fuse; share list|set do without"
        )
        raise BadFlag(flag, words) from None
    if importlib.util.find_spec("mfusepy") is None:
        raise BadFlag(flag, "needs mfusepy: pip install 'mesos-gpu[fuse]'")
    if not any(map(ctypes.util.find_library, ("fuse3", "fuse"))):
        raise BadFlag(flag, "needs libfuse: apt-get install libfuse3-3 (or libfuse2)")


class ShareTree:
    """A mount at `path` while the agent runs; its program is started anew when it dies. Lives in one event loop."""

    def __init__(self, path: Path, turns: Turns) -> None:
        self._path, self._turns = path, turns
        self._alive: socket.socket | None = None
        self._program = Child(f"the program that shows {path}", self._start, self._hear, again_s=AGAIN_S)

    def start(self) -> None:
        """Mount it."""
        self._program.begin()

    async def close(self) -> None:
        """Unmount it."""
        if self._alive is not None:
            self._alive.close()
        await self._program.close()

    def _start(self, questions: socket.socket) -> subprocess.Popen[bytes]:
        if self._alive is not None:
            self._alive.close()
        self._alive, alive = socket.socketpair()
        with alive:
            return _start([str(self._path), __version__], questions, alive)

    async def _hear(self, line: bytes) -> None:
        self._program.send(json.dumps(await self._answer(line)).encode())

    async def _answer(self, line: bytes) -> dict[str, Any]:
        said = json.loads(line)
        try:
            if said is not None:
                card, container, values, share = said_of(said)
                if card is not None:
                    await self._turns.set_card(card, values)
                elif container is not None:
                    await self._turns.set_share(container, share)
        except MesosGpuError as error:
            log.warning("%s: how GPUs are shared was not changed: %s", self._path, error)
            return {"error": str(error)}
        return {"cards": self._turns.shown()}


def _start(words: Sequence[str], questions: socket.socket, alive: socket.socket) -> subprocess.Popen[bytes]:
    """Start the program in the mounts that this process was started in, so that the machine sees what it mounts."""
    namespace = first_mounts()
    more = [] if namespace is None else [str(namespace)]
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAM, *words, *more],
        stdin=questions.fileno(),
        stdout=alive.fileno(),
        pass_fds=[] if namespace is None else [namespace],
        start_new_session=True,
    )
