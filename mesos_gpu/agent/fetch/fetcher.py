"""The fetcher: a command's URIs into its sandbox, before the container starts, with a report in the sandbox's stderr.

While it works the sandbox is root's alone: a task of the same user cannot lead it elsewhere by a link. Then all of it
is given to the user. Source: Mesos src/slave/containerizer/fetcher.cpp, src/launcher/fetcher.cpp.

What downloads and unpacks is imported when somebody fetches: few tasks do, and its libraries take memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from mesos_gpu.agent.fetch.fetch_cache import FetchCache
from mesos_gpu.agent.model.fetch_uris import Item, local_path
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.sandbox import open_output, own_all
from mesos_gpu.errors import ContainerError, MesosGpuError
from mesos_gpu.mesos.ids import ContainerId

COPY_CHUNK = 1 << 20
PLAIN, EXECUTABLE = 0o644, 0o755

log = logging.getLogger(__name__)


class FetcherSettings(Struct, frozen=True):
    """What flags say: where relative paths are, and how long a download may be without data."""

    frameworks_home: str | None = None
    stall_timeout_s: float = 60.0


class Fetcher:
    """Fetches for all tasks of one agent."""

    def __init__(self, cache: FetchCache, settings: FetcherSettings | None = None) -> None:
        self._cache, self._settings = cache, settings or FetcherSettings()
        self.succeeded = self.failed = 0

    def open(self) -> None:
        """Make the cache ready. Raises Unavailable."""
        self._cache.open()

    def metrics(self) -> dict[str, float]:
        """Return its numbers by Mesos' names."""
        return {
            "containerizer/fetcher/cache_size_total_bytes": float(self._cache.max_bytes),
            "containerizer/fetcher/cache_size_used_bytes": float(self._cache.used_bytes),
            "containerizer/fetcher/task_fetches_failed": float(self.failed),
            "containerizer/fetcher/task_fetches_succeeded": float(self.succeeded),
        }

    async def fetch(self, container_id: ContainerId, sandbox: Path, items: Sequence[Item], user: str | None) -> None:
        """Fetch all; return when they are there, unpacked, and `user` owns the sandbox.

        Raises ContainerError, in the words of Mesos; the sandbox's stderr says what went wrong.
        """
        owner = find_user(user)
        report = _Report(sandbox)
        try:
            report.say(f"Fetching {len(items)} URIs into '{sandbox}'")
            async with AsyncExitStack() as kept:
                task = _Task(sandbox, owner, user or "", report, kept)
                # Side by side, while there is no link in the sandbox; what is unpacked may have any, so one by one.
                found = await _all([self._obtain(item, task) for item in items])
                for item, path in zip(items, found, strict=True):
                    await self._settle(item, path, task)
            report.say(f"Successfully fetched all URIs into '{sandbox}'")
            self.succeeded += 1
        except _Failed:
            self.failed += 1
            words = f"Failed to fetch all URIs for container '{container_id}': exited with status 1"
            raise ContainerError(words) from None
        except asyncio.CancelledError:
            report.say("The task was ended while its URIs were fetched")
            raise
        finally:
            report.close()
            await asyncio.to_thread(own_all, sandbox, owner)

    async def _obtain(self, item: Item, task: _Task) -> Path:
        """Return the file of a URI: in the cache, or in the sandbox by its name. Raises _Failed, having said why."""
        target = task.sandbox / item.name
        task.report.say(f"Fetching URI '{item.uri}'")
        with task.report.failures(item):
            target.parent.mkdir(parents=True, exist_ok=True)
            if item.cache:
                cached = await task.kept.enter_async_context(
                    self._cache.file(
                        (task.user, item.uri),
                        lambda: self._size(item),
                        lambda path, most: self._get(item, path, task.owner, most),
                    )
                )
                if cached is not None:
                    task.report.say(f"Fetched '{item.uri}' into the cache")
                    return cached
                task.report.say(f"Reverting to fetching '{item.uri}' directly: it does not fit into the cache")
            task.report.say(f"Downloading resource from '{item.uri}' to '{target}'")
            await self._get(item, target, task.owner, None)
        return target

    async def _get(self, item: Item, path: Path, owner: HostUser, most: int | None) -> None:
        from mesos_gpu.agent.fetch import downloads

        mode = EXECUTABLE if item.executable else PLAIN
        if item.scheme:
            await downloads.download(item.uri, path, stall_s=self._settings.stall_timeout_s, mode=mode, most=most)
        else:
            await downloads.copy(local_path(item.uri, self._settings.frameworks_home), path, owner, mode=mode)

    async def _size(self, item: Item) -> int | None:
        if item.scheme:
            from mesos_gpu.agent.fetch import downloads

            return await downloads.size_of(item.uri, stall_s=self._settings.stall_timeout_s)
        try:
            return Path(local_path(item.uri, self._settings.frameworks_home)).stat().st_size
        except OSError as error:
            raise ContainerError(f"Failed to copy '{item.uri}': {error.strerror}") from error

    async def _settle(self, item: Item, found: Path, task: _Task) -> None:
        """Make of a file that is there what the item asks for; one of the cache is only read."""
        target = task.sandbox / item.name
        with task.report.failures(item):
            if not target.parent.resolve().is_relative_to(task.sandbox.resolve()) or found.is_symlink():
                raise ContainerError(f"an archive fetched before has put a link in the place of {item.name}")
            kind = item.archive
            if kind is not None:
                from mesos_gpu.agent.fetch import archives

                task.report.say(f"Extracting '{item.name}' into '{target.parent}'")
                await _in_thread(lambda stop: archives.unpack(kind, found, target.name, target.parent, stop))
            elif found != target:
                mode = EXECUTABLE if item.executable else PLAIN
                await _in_thread(lambda stop: _copy_file(found, target, mode, stop))
        task.report.say(f"Fetched '{item.uri}' to '{target}'")


class _Failed(MesosGpuError):
    """A URI could not be had; the report has said why."""


class _Task(Struct, frozen=True):
    """For whom is fetched; `kept` holds files of the cache until all is done."""

    sandbox: Path
    owner: HostUser
    user: str
    report: _Report
    kept: AsyncExitStack


class _Report:
    """Lines in the sandbox's stderr, as the fetcher of Mesos writes them."""

    def __init__(self, sandbox: Path) -> None:
        self._descriptor = open_output(sandbox / "stderr", HostUser(os.geteuid(), os.getegid()))

    def say(self, text: str, *, level: str = "I") -> None:
        now = time.time()
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}"
        os.write(self._descriptor, f"{level}{stamp} {os.getpid():5d} fetcher] {text}\n".encode(errors="replace"))

    @contextmanager
    def failures(self, item: Item) -> Iterator[None]:
        """Turn what goes wrong with an item into words here, and _Failed."""
        try:
            yield
        except (MesosGpuError, OSError) as error:
            self.say(f"Failed to fetch '{item.uri}': {error}", level="E")
            raise _Failed(str(error)) from error

    def close(self) -> None:
        os.close(self._descriptor)


async def _all(works: Sequence[Coroutine[Any, Any, Path]]) -> list[Path]:
    """Return the results of all, and leave none under way: when one fails the others come to their end first."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    errors = [error for task in tasks if (error := task.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, _Failed)), errors[0])
    return [task.result() for task in tasks]


def _copy_file(source: Path, target: Path, mode: int, stop: threading.Event) -> None:
    from mesos_gpu.agent.fetch import archives, downloads

    part = downloads.part_of(target)
    try:
        with source.open("rb") as reader, part.open("xb") as writer:
            while data := reader.read(COPY_CHUNK):
                if stop.is_set():
                    raise ContainerError("stopped while copying")
                archives.check_room(target.parent, len(data))
                writer.write(data)
            os.fchmod(writer.fileno(), mode)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


async def _in_thread(work: Callable[[threading.Event], None]) -> None:
    """Do file work aside; a caller that is cancelled has it stop, and waits for that."""
    stop = threading.Event()
    working: Awaitable[None] = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(working, return_exceptions=True)
        raise
