"""The program mesos-gpu-marathon-state: copies all that lasts from one store into another that is empty.

So a Marathon moves from its file to ZooKeeper and back, and backups are made and restored. It continues as the same
framework, with its tasks; the Marathons at both ends must be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mesos_gpu.errors import BadInput, Conflict, Unavailable
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.store.rows import saves_of
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.marathon.store.store import Store
from mesos_gpu.marathon.store.zk_limits import ZkLimits
from mesos_gpu.mesos.flags import without_credentials
from mesos_gpu.mesos.leader import SCHEME, SESSION_TIMEOUT_S, leading, parse_zk_url
from mesos_gpu.process.program import EXIT_OK, EXIT_USAGE, run_program

if TYPE_CHECKING:
    from mesos_gpu.process.zookeeper import ZkSession

NAME = "mesos-gpu-marathon-state"
USAGE = f"""Usage: {NAME} copy FROM TO

FROM and TO are files (--store_path) or zk://host1:port1,host2:port2/path (--zk) of Marathons that do not run.
TO must be empty, or not there yet.
"""
PATIENCE_S = 30.0
ALL = sys.maxsize
"""Versions to keep: whoever runs on the copy says how many."""


def main(argv: Sequence[str] | None = None) -> int:
    """Copy, and return the exit status: 0, 1 when it cannot be done, 2 for bad usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--help"], ["-h"]):
        print(USAGE)
        return EXIT_OK
    if len(words) != 3 or words[0] != "copy":
        print(USAGE, file=sys.stderr)
        return EXIT_USAGE
    return run_program(NAME, lambda _: copy(words[1], words[2]))


async def copy(source: str, target: str) -> int:
    """Copy everything. Raises MesosGpuError; then the target is as it was."""
    if not source.startswith(SCHEME) and not Path(source).is_file():
        raise BadInput(f"there is no file {source}")
    async with _opened(source) as read, _opened(target) as write:
        lasting = await asyncio.to_thread(read.load)
        if await asyncio.to_thread(write.load) != Lasting():
            raise BadInput(f"{without_credentials(target)} has a state already; nothing was copied")
        await asyncio.to_thread(write.save, saves_of(lasting))
    places = f"from {without_credentials(source)} to {without_credentials(target)}"
    print(f"copied {len(lasting.versions)} apps and {len(lasting.instances)} instances {places}")
    return EXIT_OK


def back_up(lasting: Lasting, path: Path) -> None:
    """Write everything to a new file. Raises BadInput when it is there already, Unavailable when it cannot be made."""
    if path.exists():
        raise BadInput(f"{path} is there already; nothing was written")
    store = SqliteStore(path, max_versions=ALL)
    try:
        store.save(saves_of(lasting))
    finally:
        store.close()


@contextlib.asynccontextmanager
async def _opened(where: str) -> AsyncIterator[Store]:
    if not where.startswith(SCHEME):
        store = SqliteStore(Path(where), max_versions=ALL)
        try:
            yield store
        finally:
            store.close()
        return
    from mesos_gpu.marathon.store.zookeeper import ZooKeeperStore
    from mesos_gpu.process.zookeeper import ZkSession
    from mesos_gpu.process.zookeeper_tree import ZkTree

    url = parse_zk_url("zk", where)
    session = ZkSession(url, SESSION_TIMEOUT_S)
    connected = asyncio.Event()
    session.start(lambda: session.call_in_loop(connected.set), lambda: None)
    try:
        try:
            await asyncio.wait_for(connected.wait(), PATIENCE_S)
        except asyncio.TimeoutError:
            raise Unavailable(f"no answer from ZooKeeper at {url} in {PATIENCE_S:g} s") from None
        await asyncio.to_thread(_nobody_leads, session)
        yield ZooKeeperStore(ZkTree(session, url.path, patience_s=PATIENCE_S), ZkLimits(max_versions=ALL))
    finally:
        await session.close()


def _nobody_leads(session: ZkSession) -> None:
    path = f"{session.url.path}/leader"
    if session.client.exists(path) and leading(session.client.get_children(path)) is not None:
        raise Conflict(f"a Marathon at {session.url} is running; stop it first")


if __name__ == "__main__":
    sys.exit(main())
