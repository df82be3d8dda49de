"""Serves the tree of /proc/cgpu_km by FUSE: a program of its own, which asks its agent over a socket on standard input.

`python -m mesos_gpu.agent.gpus.tree_program MOUNTPOINT VERSION [NAMESPACE]`, NAMESPACE being a descriptor of the mounts
to be in. Each question is a line of JSON: `null` for the cards, or what is to be set; the answer is `{"cards": [...]}`
or `{"error": "..."}`. It ends, and the mount with it, when its agent does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mfusepy

from mesos_gpu.agent.model.share_tree import Node, node, written
from mesos_gpu.base.linux import libc
from mesos_gpu.errors import BadInput, NotFound


class Tree(mfusepy.Operations):  # type: ignore[misc]
    """The tree, as FUSE asks for it. A write is passed on whole: `echo` makes one."""

    use_ns = True

    def __init__(self, agent: socket.socket, version: str) -> None:
        self._agent, self._version = agent, version
        self._answers = agent.makefile("rb")

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return what stat(2) tells."""
        found = self._node(path)
        if found.text is None:
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        mode = 0o644 if found.writable else 0o444
        return {"st_mode": stat.S_IFREG | mode, "st_nlink": 1, "st_size": len(found.text)}

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        """Return the names in a folder."""
        yield from (".", "..", *self._node(path).names)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return what is in a file."""
        return (self._node(path).text or "").encode()[offset : offset + size]

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Do nothing: what follows is written."""

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Set something; EINVAL when it cannot be so, for the reason that the agent's log has."""
        with _errors():
            said = written(self._ask(None), path, data.decode(errors="replace"))
            if said is not None:
                self._ask(said)
        return len(data)

    def _node(self, path: str) -> Node:
        with _errors():
            return node(self._ask(None), path, self._version)

    def _ask(self, said: Any) -> list[dict[str, Any]]:
        self._agent.sendall(json.dumps(said).encode() + b"\n")
        answer = json.loads(self._answers.readline() or b'{"error": "the agent is gone"}')
        if "error" in answer:
            raise BadInput(answer["error"])
        return list(answer["cards"])


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise mfusepy.FuseOSError(errno.ENOENT) from None
    except BadInput as error:
        print(f"not changed: {error}", file=sys.stderr, flush=True)
        raise mfusepy.FuseOSError(errno.EINVAL) from None
    except OSError:
        raise mfusepy.FuseOSError(errno.EIO) from None


def detach(path: str) -> bool:
    """Take a mount away, also one whose program is gone; tell whether there was one."""
    try:
        libc.call("umount2", os.fsencode(path), libc.MNT_DETACH)
    except OSError:
        return False
    return True


def _end_with_agent(path: str) -> None:
    """End when the agent does: its end of the other socket is closed then."""
    with socket.socket(fileno=os.dup(1)) as alive:
        alive.recv(1)
    detach(path)
    os._exit(0)


def main(path: str, version: str, namespace: str = "") -> None:
    """Serve until the agent is gone."""
    if namespace:
        try:
            libc.call("setns", int(namespace), libc.CLONE_NEWNS)
        except OSError as error:
            sys.exit(f"cannot enter the mounts of this machine: {error.strerror}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while detach(path):
        pass  # what a process before this one left
    Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
    agent = socket.socket(fileno=0)
    agent.setblocking(True)
    threading.Thread(target=_end_with_agent, args=(path,), daemon=True).start()
    named = {"fsname": "mesos-gpu", "subtype": "cgpu_km"}
    mfusepy.FUSE(Tree(agent, version), path, foreground=True, nothreads=True, direct_io=True, **named)


if __name__ == "__main__":
    main(*sys.argv[1:])
