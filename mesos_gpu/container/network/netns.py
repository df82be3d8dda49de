"""Network namespaces: made, pinned so that they outlive their processes and this one, entered for a socket.

A network namespace belongs to a thread, as does a mount namespace; so each step here has a thread of its own.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.libc import CLONE_FS, CLONE_NEWNET, CLONE_NEWNS, MS_BIND
from mesos_gpu.container.host.mounts import first_mounts, unmount
from mesos_gpu.errors import ContainerError

T = TypeVar("T")

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
_IFREQ = "16sH22x"
NS_GET_NSTYPE = 0xB703
"""ioctl_ns(2)."""

THREADS = 4
"""How many plugins may run at a time."""


class Outside:
    """Threads that see the mounts which this program was started with, not its private ones.

    What is mounted there is still there when this program is killed and started again, and other programs see it: a
    plugin may pass the path of a namespace on to a service of its own. In a unit of systemd with private mounts these
    are the machine's, where the kernel lets us in and `folder` is the same there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(THREADS, thread_name_prefix="outside", initializer=self._enter)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call `function` in such a thread; its result, or what it raises, is the future's."""
        return asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """End the threads when they are idle."""
        self._thread.shutdown(wait=False)

    def _enter(self) -> None:
        for namespace in (self._machines(), first_mounts()):
            if namespace is None:
                continue
            try:
                libc.call("unshare", CLONE_FS)
                libc.call("setns", namespace, CLONE_NEWNS)
                return
            except OSError:
                continue  # not allowed: then our own mounts must do, and a restarted agent finds no pins

    def _machines(self) -> int | None:
        """Return the mounts of process 1, None when they are not to be had or have another folder there.

        The descriptor stays open: it is one for each thread of ours, which are few.
        """
        try:
            if not Path(f"/proc/1/root{self._folder}").samefile(self._folder):
                return None
            return os.open("/proc/1/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None


def in_thread(function: Callable[[], T]) -> T:
    """Call `function` in a thread that ends with it, so that it may change the thread's namespaces."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def make_namespace() -> int:
    """Return a descriptor of a new network namespace, in which only the loopback is, and up. Raises ContainerError."""

    def work() -> int:
        libc.call("unshare", CLONE_NEWNET)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            found = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack(_IFREQ, b"lo", 0))
            flags = struct.unpack(_IFREQ, found)[1]
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | IFF_UP))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    try:
        return in_thread(work)
    except OSError as error:
        raise ContainerError(f"cannot make a network namespace: {error.strerror}") from error


def pin(namespace: int, path: Path) -> None:
    """Keep a namespace at a path, until `unpin`. In the thread of Outside. Raises OSError."""
    path.touch()
    libc.mount(f"/proc/self/fd/{namespace}", path, None, MS_BIND)


def unpin(path: Path) -> None:
    """Give up a path; nothing happens to one that is not there. In the thread of Outside. Raises OSError."""
    unmount(path)
    path.unlink(missing_ok=True)


def drop_unpinned(path: Path) -> None:
    """Remove a path at which nothing is pinned any more: to plugins a path without a file means that it is gone."""
    namespace = open_pinned(path)
    if namespace is None:
        path.unlink(missing_ok=True)
    else:
        os.close(namespace)


def open_pinned(path: Path) -> int | None:
    """Return a descriptor of a pinned namespace; None when there is none, as after a restart of the machine."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if fcntl.ioctl(descriptor, NS_GET_NSTYPE) == CLONE_NEWNET:
            return descriptor
    except OSError:
        pass  # a file on which nothing is mounted any more
    os.close(descriptor)
    return None


def socket_in(namespace: int, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Return a socket of another network namespace, whoever uses it then. Raises OSError."""

    def work() -> socket.socket:
        libc.call("setns", namespace, CLONE_NEWNET)
        return socket.socket(family, kind, protocol)

    return in_thread(work)
