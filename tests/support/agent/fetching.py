"""A fetcher for tests, with sandboxes to fetch into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mesos_gpu.agent.fetch.fetch_cache import FetchCache
from mesos_gpu.agent.fetch.fetcher import Fetcher, FetcherSettings, OpenLocalFiles
from mesos_gpu.agent.model.fetch_uris import read_uris
from tests.fakes.local_files import own_files


class Work:
    """A fetcher and sandboxes."""

    def __init__(self, folder: Path, cache_bytes: int = 1 << 20, **settings: Any) -> None:
        self.folder = folder
        self.cache = FetchCache(folder / "cache", cache_bytes)
        self.fetcher = Fetcher(self.cache, FetcherSettings(**settings))
        self.fetcher.open()
        self.local_files: OpenLocalFiles = own_files

    def sandbox(self, name: str = "s") -> Path:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path

    async def fetch(self, *uris: dict[str, Any] | str, name: str = "s", user: str | None = None) -> Path:
        documents = [{"value": uri} if isinstance(uri, str) else uri for uri in uris]
        sandbox = self.sandbox(name)
        await self.fetcher.fetch("c1", sandbox, read_uris({"uris": documents}), user, self.local_files)
        return sandbox

    def files(self, name: str = "s") -> list[str]:
        found = self.sandbox(name).rglob("*")
        return sorted(str(path.relative_to(self.folder / name)) for path in found if path.is_file())
