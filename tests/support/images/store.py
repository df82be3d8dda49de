"""A store of images for tests: its source counts what it is asked for, and can be held back."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mesos_gpu.images.archives import Archives
from mesos_gpu.images.blobs import Document, Partial, Received
from mesos_gpu.images.manifest import Descriptor
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.sources import Source
from mesos_gpu.images.store import ImageStore, StoreLimits
from mesos_gpu.images.unpacked import LayerLimits
from tests.support.images.build import BuiltImage, Compression, Layer, file, folder, save_archive, tar_of

ROOMY = StoreLimits(layer=LayerLimits(reserve_bytes=0))


class Watched:
    """A folder of archives as a Source, counting what is asked for; `gate` holds blobs back."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._archives = folder, Archives(folder)
        self.asked: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    def add(self, name: str, image: BuiltImage) -> None:
        save_archive(self._folder / f"{ImageReference.parse(name)}.tar", image)

    async def manifest(self, reference: ImageReference, digest: str | None = None) -> Document:
        self.asked[str(reference)] += 1
        return await self._archives.manifest(reference, digest)

    async def blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        self.asked[blob.digest] += 1
        if not self.gate.is_set():
            self.waiting.set()
            await self.gate.wait()
        await self._archives.blob(reference, blob, into, received)

    async def close(self) -> None:
        pass


def layer(content: str, compression: Compression = "gzip") -> Layer:
    return Layer(tar_of(folder("d"), file(f"d/{content}", content.encode() * 1000)), compression)


ONE, TWO, THREE = layer("one"), layer("two", "zstd"), layer("three", "plain")


@asynccontextmanager
async def opened(
    directory: Path, source: Source, limits: StoreLimits = ROOMY, **more: Any
) -> AsyncIterator[ImageStore]:
    store = ImageStore(directory, source, limits, **more)
    await store.recover()
    try:
        yield store
    finally:
        await store.close()
        assert children() == []


def children() -> list[str]:
    """The processes that unpack layers."""
    return [
        pid
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if b"mesos_gpu.images.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def contents(directory: Path) -> dict[str, int]:
    """How many things each folder of a store holds."""
    return {path.name: len(list(path.iterdir())) for path in directory.iterdir() if path.is_dir()}


EMPTY = {"images": 0, "uses": 0, "layers": 0, "downloads": 0, "unpacking": 0, "trash": 0}
