"""The fetcher: a command's URIs into its sandbox, before the container starts, with a report in the sandbox's stderr.

While it works the sandbox is root's alone: a task of the same user cannot lead it elsewhere by a link. Then all of it
is given to the user. Local files are opened with the rights that the task will have (`LocalFiles`), and read here.
Source: Mesos src/slave/containerizer/fetcher.cpp, src/launcher/fetcher.cpp.

What downloads and unpacks is imported when somebody fetches: few tasks do, and its libraries take memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from mesos_gpu.agent.fetch.fetch_cache import FetchCache, Key
from mesos_gpu.agent.model.fetch_uris import Item, local_path
from mesos_gpu.base.files import replacing
from mesos_gpu.container.host.task_files import OpenFile
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


class LocalFiles(Protocol):
    """Opens files of this machine as the task's processes would."""

    async def open(self, path: str) -> OpenFile:
        """Open a regular file for reading. Raises ContainerError when the task could not."""


OpenLocalFiles: TypeAlias = Callable[[], AbstractAsyncContextManager[LocalFiles]]


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

    async def fetch(
        self,
        container_id: ContainerId,
        sandbox: Path,
        items: Sequence[Item],
        user: str | None,
        local_files: OpenLocalFiles,
    ) -> None:
        """Fetch all; return when they are there, unpacked, and `user` owns the sandbox.

        `local_files` is entered if one of them is a local file. Raises ContainerError, in the words of Mesos; the
        sandbox's stderr says what went wrong.
        """
        owner = find_user(user)
        report = _Report(sandbox)
        try:
            report.say(f"Fetching {len(items)} URIs into '{sandbox}'")
            async with AsyncExitStack() as kept:
                files = None
                if not all(item.scheme for item in items):
                    with report.failures("local files"):
                        files = await kept.enter_async_context(local_files())
                task = _Task(sandbox, user or "", report, kept, files)
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
        with task.report.failures(item.uri):
            target.parent.mkdir(parents=True, exist_ok=True)
            source = await self._source(item, task)
            if item.cache:
                cached = await task.kept.enter_async_context(self._cache.file(source.key, source.size, source.get))
                if cached is not None:
                    task.report.say(f"Fetched '{item.uri}' into the cache")
                    return cached
                task.report.say(f"Reverting to fetching '{item.uri}' directly: it does not fit into the cache")
            task.report.say(f"Downloading resource from '{item.uri}' to '{target}'")
            await source.get(target, None)
        return target

    async def _source(self, item: Item, task: _Task) -> _Remote | _Local:
        mode = EXECUTABLE if item.executable else PLAIN
        if item.scheme or task.files is None:
            return _Remote(item.uri, task.user, self._settings.stall_timeout_s, mode)
        return _Local(await task.files.open(local_path(item.uri, self._settings.frameworks_home)), mode)

    async def _settle(self, item: Item, found: Path, task: _Task) -> None:
        """Make of a file that is there what the item asks for; one of the cache is only read."""
        target = task.sandbox / item.name
        with task.report.failures(item.uri):
            if not target.parent.resolve().is_relative_to(task.sandbox.resolve()) or found.is_symlink():
                raise ContainerError(f"an archive fetched before has put a link in the place of {item.name}")
            kind = item.archive
            if kind is not None:
                from mesos_gpu.agent.fetch import archives

                task.report.say(f"Extracting '{item.name}' into '{target.parent}'")
                await _in_thread(lambda stop: archives.unpack(kind, found, target.name, target.parent, stop))
            elif found != target:
                mode = EXECUTABLE if item.executable else PLAIN
                cached = OpenFile(os.open(found, os.O_RDONLY | os.O_CLOEXEC))
                await _in_thread(lambda stop: _copy(cached, target, mode, None, stop))
        task.report.say(f"Fetched '{item.uri}' to '{target}'")


class _Failed(MesosGpuError):
    """A URI could not be had; the report has said why."""


class _Task(Struct, frozen=True):
    """One fetch; `kept` holds files of the cache until all is done. `files` is None if all items are remote."""

    sandbox: Path
    user: str
    report: _Report
    kept: AsyncExitStack
    files: LocalFiles | None


class _Remote(Struct, frozen=True):
    """A URI that is downloaded; whoever knows it can have it."""

    uri: str
    user: str
    stall_s: float
    mode: int

    @property
    def key(self) -> Key:
        return self.user, self.uri

    async def size(self) -> int | None:
        from mesos_gpu.agent.fetch import downloads

        return await downloads.size_of(self.uri, stall_s=self.stall_s)

    async def get(self, path: Path, most: int | None) -> None:
        from mesos_gpu.agent.fetch import downloads

        await downloads.download(self.uri, path, stall_s=self.stall_s, mode=self.mode, most=most)


class _Local(Struct, frozen=True):
    """A file of this machine that was opened with the task's rights."""

    file: OpenFile
    mode: int

    @property
    def key(self) -> Key:
        """The file with its present content: another task with this key has opened the same."""
        found = os.fstat(self.file.descriptor)
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return "", ":".join(map(str, identity))

    async def size(self) -> int | None:
        """Return how long it is, None for 0: some file systems do not know it, and what is empty needs no cache."""
        return os.fstat(self.file.descriptor).st_size or None

    async def get(self, path: Path, most: int | None) -> None:
        await _in_thread(lambda stop: _copy(self.file, path, self.mode, most, stop))


class _Report:
    """Lines in the sandbox's stderr, as the fetcher of Mesos writes them."""

    def __init__(self, sandbox: Path) -> None:
        self._descriptor = open_output(sandbox / "stderr", HostUser(os.geteuid(), os.getegid()))

    def say(self, text: str, *, level: str = "I") -> None:
        now = time.time()
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}"
        os.write(self._descriptor, f"{level}{stamp} {os.getpid():5d} fetcher] {text}\n".encode(errors="replace"))

    @contextmanager
    def failures(self, what: str) -> Iterator[None]:
        """Turn what goes wrong with `what`, a URI, into a line here, and _Failed."""
        try:
            yield
        except (MesosGpuError, OSError) as error:
            self.say(f"Failed to fetch '{what}': {error}", level="E")
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


def _copy(source: OpenFile, target: Path, mode: int, most: int | None, stop: threading.Event) -> None:
    """Copy a file, of which at most `most` bytes count: one may grow meanwhile, as logs do. Raises ContainerError."""
    from mesos_gpu.agent.fetch import archives

    at = 0
    with replacing(target, mode=mode, durable=False) as writer:
        while data := os.pread(source.descriptor, COPY_CHUNK if most is None else min(COPY_CHUNK, most - at), at):
            if stop.is_set():
                raise ContainerError("stopped while copying")
            archives.check_room(target.parent, len(data))
            writer.write(data)
            at += len(data)


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
