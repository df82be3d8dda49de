"""How an image comes into the store: its manifest, its config, then its layers, each once however many want it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Collection, MutableMapping
from functools import partial

from mesos_gpu.errors import ImageError
from mesos_gpu.images.blobs import Document, Partial, Received, disk_errors
from mesos_gpu.images.extractor import Extractor
from mesos_gpu.images.folders import Folders
from mesos_gpu.images.manifest import (
    MAX_CONFIG,
    Descriptor,
    ImageConfig,
    Manifest,
    Platform,
    read_config,
    read_manifest,
)
from mesos_gpu.images.progress import LayerState, Progress, Tell, sum_up
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.shared import Shared, all_or_none
from mesos_gpu.images.sources import Source
from mesos_gpu.images.unpacked import LayerLimits

MAX_INDEXES = 3
"""How many indexes one image may lead through."""


class Puller:
    """Brings images in. `sizes`, bytes by diff_id, is the store's list of layers; new ones are added to it."""

    def __init__(
        self,
        source: Source,
        folders: Folders,
        sizes: MutableMapping[str, int],
        *,
        platform: Platform,
        downloads: int,
        workers: int,
        layer_limits: LayerLimits,
    ) -> None:
        self._source, self._folders, self._sizes = source, folders, sizes
        self._platform, self._layer_limits = platform, layer_limits
        self._downloads = asyncio.Semaphore(downloads)
        self._extractor = Extractor(workers)
        self._layers: Shared[str, None] = Shared()
        self._states: dict[str, LayerState] = {}
        self._configs: Shared[str, ImageConfig] = Shared()
        self._needed: Counter[str] = Counter()
        self._pulls = 0

    @property
    def needed(self) -> set[str]:
        """The layers, by diff_id, that pulls under way count on."""
        return set(self._needed)

    async def pull(self, reference: ImageReference, tell: Tell) -> tuple[str, ImageConfig]:
        """Bring in what is missing of an image; return its manifest's digest and its config. Raises ImageError."""
        self._pulls += 1
        try:
            tell(Progress(str(reference), "resolving"))
            digest, manifest = await self._resolve(reference)
            config = await self._configs.join(manifest.config.digest, lambda: self._config(reference, manifest.config))
            self._check(reference, manifest, config)
            blobs = dict(zip(config.diff_ids, manifest.layers, strict=True))
            self._needed.update(blobs.keys())
            self._extractor.expect(sum(diff_id not in self._sizes for diff_id in blobs))
            try:
                await self._bring(reference, blobs, tell)
            finally:
                self._needed.subtract(blobs.keys())
                self._needed += Counter()  # drops those at zero
            return digest, config
        finally:
            self._pulls -= 1
            if not self._pulls:
                await self._extractor.rest()

    async def close(self) -> None:
        """End the processes."""
        await self._extractor.rest()

    async def _resolve(self, reference: ImageReference) -> tuple[str, Manifest]:
        document: Document = await self._source.manifest(reference)
        for _ in range(MAX_INDEXES):
            manifest = read_manifest(document.data, document.media_type)
            if isinstance(manifest, Manifest):
                return document.digest, manifest
            document = await self._source.manifest(reference, manifest.choose(self._platform).digest)
        raise ImageError(f"{reference} leads from index to index, {MAX_INDEXES} times")

    async def _config(self, reference: ImageReference, blob: Descriptor) -> ImageConfig:
        if blob.size > MAX_CONFIG:
            raise ImageError(f"the config of {reference} has {blob.size} bytes; at most {MAX_CONFIG} are taken")
        path = self._folders.download(blob.digest)
        await self._download(reference, blob, lambda _: None)
        with disk_errors(path):
            data = path.read_bytes()
            path.unlink()
        return read_config(data)

    def _check(self, reference: ImageReference, manifest: Manifest, config: ImageConfig) -> None:
        if len(config.diff_ids) != len(manifest.layers):
            raise ImageError(
                f"{reference} has {len(manifest.layers)} layers, but its config says {len(config.diff_ids)}"
            )
        built_for = Platform(config.architecture or self._platform.architecture, "", config.os or self._platform.os)
        if str(built_for) != str(self._platform):
            raise ImageError(f"{reference} is built for {built_for}; this machine is {self._platform}")

    async def _bring(self, reference: ImageReference, blobs: dict[str, Descriptor], tell: Tell) -> None:
        missing = {diff_id: blob for diff_id, blob in blobs.items() if diff_id not in self._sizes}
        self._check_room(reference, missing.values())
        there = len(blobs) - len(missing)
        states = [self._states.setdefault(diff_id, LayerState(blob.size)) for diff_id, blob in missing.items()]

        def changed() -> None:
            tell(sum_up(str(reference), states, there))

        for state in states:
            state.watchers.append(changed)
        try:
            changed()
            await all_or_none(
                [
                    self._layers.join(diff_id, partial(self._layer, reference, diff_id, blob, self._states[diff_id]))
                    for diff_id, blob in missing.items()
                ]
            )
        finally:
            for state in states:
                state.watchers.remove(changed)
            for diff_id in missing:
                if (state_now := self._states.get(diff_id)) is not None and not state_now.watchers:
                    del self._states[diff_id]

    def _check_room(self, reference: ImageReference, blobs: Collection[Descriptor]) -> None:
        with disk_errors(self._folders.directory / "downloads"):
            disk = os.statvfs(self._folders.directory)
        free, needed = disk.f_bavail * disk.f_frsize, sum(blob.size for blob in blobs)
        if blobs and needed + self._layer_limits.reserve_bytes > free:
            raise ImageError(
                f"no space left on the disk of {self._folders.directory}: {reference} needs {needed >> 20} MiB, "
                f"more when unpacked; {free >> 20} MiB are free, {self._layer_limits.reserve_bytes >> 20} of which stay"
            )

    async def _layer(self, reference: ImageReference, diff_id: str, blob: Descriptor, state: LayerState) -> None:
        if diff_id in self._sizes:  # another image brought it while we waited
            state.change(got=state.total, done=True)
            return
        async with self._downloads:
            await self._download(reference, blob, lambda got: state.change(got=got))
        state.change(extracting=True)
        path = self._folders.download(blob.digest)
        with disk_errors(path):
            made = self._folders.new_layer()
        try:
            extracted = await self._extractor.extract(path, made / "root", diff_id, self._layer_limits)
            with disk_errors(made):
                self._sizes[diff_id] = self._folders.commit_layer(made, diff_id, extracted).bytes
        except ImageError:
            path.unlink(missing_ok=True)  # as it is, no later try can do better
            raise
        finally:
            if made.exists():
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, made, ignore_errors=True))
        path.unlink(missing_ok=True)
        state.change(done=True)

    async def _download(self, reference: ImageReference, blob: Descriptor, received: Received) -> None:
        file = Partial(self._folders.download(blob.digest), blob)
        try:
            await self._source.blob(reference, blob, file, received)
        finally:
            file.close()
