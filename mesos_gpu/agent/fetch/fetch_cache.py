"""Files that several tasks fetch, kept on the agent's machine: each is downloaded once, the unused ones go first.

Source: Mesos src/slave/containerizer/fetcher.cpp (FetcherProcess::Cache): a key is user and URI, the least recently
used goes first, and what does not fit is fetched past the cache. Unlike there, a local file's key is the file as it was
when the task's user opened it: each task opens it with its own rights before it gets what another has put here.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mesos_gpu.errors import Unavailable

Key: TypeAlias = tuple[str, str]


@dataclass(eq=False)
class _Entry:
    path: Path
    filling: asyncio.Task[bool] | None = None
    users: int = 0
    size: int = 0
    filled: bool = False


class FetchCache:
    """A folder of at most `max_bytes`, this agent's alone. It begins empty: what was in it is forgotten."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self.max_bytes = folder, max_bytes
        self._entries: dict[Key, _Entry] = {}  # the least recently used first
        self._numbers = itertools.count(1)

    @property
    def used_bytes(self) -> int:
        """Return what is kept and what is being downloaded."""
        return sum(entry.size for entry in self._entries.values())

    def open(self) -> None:
        """Empty the folder. Raises Unavailable when that cannot be."""
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise Unavailable(f"cannot use --fetcher_cache_dir={self._folder}: {error.strerror}") from None

    @asynccontextmanager
    async def file(
        self, key: Key, size: Callable[[], Awaitable[int | None]], download: Callable[[Path, int], Awaitable[None]]
    ) -> AsyncIterator[Path | None]:
        """Yield the file of `key`, downloaded if need be, and keep it while the caller works; None: it does not fit.

        `size` tells how large it is, None when nobody knows; `download` writes it to a path and raises when it is
        larger. Raises what they raise; the next caller tries again.
        """
        entry = self._entries.pop(key, None) or _Entry(self._folder / f"c{next(self._numbers)}")
        self._entries[key] = entry
        entry.users += 1
        try:
            if not entry.filled:
                if entry.filling is None:
                    entry.filling = asyncio.create_task(self._fill(entry, size, download))
                entry.filled = await asyncio.shield(entry.filling)
            yield entry.path if entry.filled else None
        finally:
            entry.users -= 1
            if not entry.users and not entry.filled:
                await self._give_up(key, entry)

    async def _fill(
        self, entry: _Entry, size: Callable[[], Awaitable[int | None]], download: Callable[[Path, int], Awaitable[None]]
    ) -> bool:
        try:
            expected = await size()
            if expected is None or not self._make_room(expected):
                return False
            entry.size = expected
            await download(entry.path, expected)
            entry.size = entry.path.stat().st_size
        except BaseException:
            entry.path.unlink(missing_ok=True)
            entry.size = 0
            raise
        return True

    async def _give_up(self, key: Key, entry: _Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]
        if entry.filling is not None and not entry.filling.done():
            entry.filling.cancel()
            await asyncio.wait([entry.filling])

    def _make_room(self, size: int) -> bool:
        """Remove unused files until `size` bytes fit; nothing is removed when that would not be enough."""
        over = self.used_bytes + size - self.max_bytes
        victims = []
        for key, entry in self._entries.items():
            if over <= 0:
                break
            if entry.filled and not entry.users:
                victims.append(key)
                over -= entry.size
        if over > 0:
            return False
        for key in victims:
            self._entries.pop(key).path.unlink(missing_ok=True)
        return True
