"""The store: images that are whole, their layers by content, and who uses them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from mesos_gpu.errors import ImageError
from mesos_gpu.images.blobs import disk_errors
from mesos_gpu.images.collection import Kept, choose
from mesos_gpu.images.folders import Folders
from mesos_gpu.images.manifest import ImageConfig, Platform
from mesos_gpu.images.progress import Progress, Tell
from mesos_gpu.images.pulling import Puller
from mesos_gpu.images.records import ImageRecord, LayerRecord, UseRecord, image_records, load_or_remove, use_records
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.shared import Shared
from mesos_gpu.images.sources import Source
from mesos_gpu.images.unpacked import LayerLimits, is_opaque
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)


class StoreLimits(Struct, frozen=True):
    """Seconds that one pull may take, downloads and layers unpacked at a time, and what one layer may take."""

    pull_timeout_s: float = 3600.0
    downloads: int = 4
    workers: int = min(4, os.cpu_count() or 1)
    layer: LayerLimits = field(default_factory=LayerLimits)


class Image(Struct, frozen=True):
    """An image ready to be mounted.

    `layers` go from the lowest to the topmost; overlayfs' lowerdir names them the other way round. All differ. Never
    write to them: containers and images share them.
    """

    reference: ImageReference
    digest: str
    config: ImageConfig
    layers: tuple[Path, ...]


class StoredImage(Struct, frozen=True):
    """An image as `mesos-gpu image list` shows it. `bytes` are those of all its layers, shared ones too."""

    reference: str
    digest: str
    bytes: int
    layers: int
    pulled_at_s: float
    used_at_s: float
    used_by: tuple[str, ...]


class Pruned(Struct, frozen=True):
    """What a prune removed: images by name, and bytes of layers."""

    images: tuple[str, ...]
    bytes: int


class ImageStore:
    """Images below one folder. Call `recover` first and `close` last; all from one event loop."""

    def __init__(
        self,
        directory: Path,
        source: Source,
        limits: StoreLimits | None = None,
        *,
        platform: Platform | None = None,
    ) -> None:
        self._limits = limits or StoreLimits()
        self._folders, self._source = Folders(directory), source
        self._records = image_records(self._folders.images)
        self._use_records = use_records(self._folders.uses)
        self._images: dict[str, ImageRecord] = {}
        self._uses: dict[str, UseRecord] = {}
        self._sizes: dict[str, int] = {}
        self._pulls: Shared[tuple[str, bool], ImageRecord] = Shared()
        self._listeners: dict[tuple[str, bool], list[Tell]] = {}
        self._held: Counter[str] = Counter()  # images being pulled, by reference
        self._settling: set[asyncio.Task[None]] = set()
        self._puller = Puller(
            source,
            self._folders,
            self._sizes,
            platform=platform or Platform.of_machine(os.uname().machine),
            downloads=self._limits.downloads,
            workers=self._limits.workers,
            layer_limits=self._limits.layer,
        )

    async def recover(self, live: Collection[str] = ()) -> None:
        """Take up what an earlier run left, and forget what containers used that are not in `live`.

        Unfinished layers are removed; unfinished downloads are gone on with by the next pull. After the machine went
        down, what may not have reached the disk is removed too. What `live` containers use stays, whichever record is
        damaged. Raises Conflict when another process has the store, ImageError when the disk refuses.
        """
        with disk_errors(self._folders.directory / "images"):
            await asyncio.to_thread(self._folders.open)
            boot_id = self._folders.boot_id
            layers = await asyncio.to_thread(self._recover_uses, live)
            for image in load_or_remove(self._records)[0]:
                if image.boot_id in ("", boot_id) and layers.keys() >= set(image.config.diff_ids):
                    self._images[image.reference] = image
                else:
                    self._records.forget(image.reference)
            sure = {diff_id for image in self._images.values() for diff_id in image.config.diff_ids}
            sure.update(diff_id for use in self._uses.values() for diff_id in use.diff_ids)
            for diff_id, layer in layers.items():
                if diff_id in sure or layer.boot_id == boot_id:
                    self._sizes[diff_id] = layer.bytes
                else:
                    await asyncio.to_thread(shutil.rmtree, self._folders.discard_layer(diff_id))
            for image in self._images.values():
                self._begin_settling(image)

    def _recover_uses(self, live: Collection[str]) -> dict[str, LayerRecord]:
        """Take up who uses what, and return the layers that are there."""
        uses, damaged = load_or_remove(self._use_records, live)
        for use in uses:
            if use.container_id in live:
                self._uses[use.container_id] = use
            else:
                self._use_records.forget(use.container_id)
        used = None if damaged else {diff_id for use in self._uses.values() for diff_id in use.diff_ids}
        layers = {layer.diff_id: layer for layer in self._folders.layers(used)}
        for container_id in damaged:  # it uses some of them, and nobody knows which
            log.warning(
                "what the container %s uses is not known: all layers that are there stay until its end", container_id
            )
            use = UseRecord(container_id=ContainerId(container_id), reference="", digest="", diff_ids=tuple(layers))
            self._use_records.save(use)
            self._uses[container_id] = use
        return layers

    async def close(self) -> None:
        """End the processes and connections. Cancel pulls first."""
        for task in tuple(self._settling):
            task.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)
        await self._puller.close()
        await self._source.close()
        self._folders.close()

    async def pull(
        self,
        reference: ImageReference | str,
        progress: Tell | None = None,
        *,
        by: ContainerId | None = None,
        cached: bool = True,
    ) -> Image:
        """Return an image, bringing in what is missing of it. `progress` is told in the event loop at each step.

        With `by`, that container uses the image from before this returns. Without `cached`, the source is asked whether
        the name means another image by now (Mesos' Image.cached). Cancelled, it leaves nothing but partial downloads.
        Raises BadInput for a bad name, ImageError.
        """
        reference = reference if isinstance(reference, ImageReference) else ImageReference.parse(reference)
        name = str(reference)
        with self._holding(name):
            record = self._images.get(name) if cached else None
            if record is None:
                record = await self._join((name, cached), reference, progress)
            elif progress is not None:
                count = len(record.config.diff_ids)
                progress(Progress(name, "done", count, count))
            image = self._image(record)
            if by is not None:
                self.use(image, by)
            return image

    def images(self) -> tuple[StoredImage, ...]:
        """Return all images, by name."""
        return tuple(
            StoredImage(
                record.reference,
                record.digest,
                sum(self._sizes.get(diff_id, 0) for diff_id in set(record.config.diff_ids)),
                len(record.config.diff_ids),
                record.pulled_at_s,
                record.used_at_s,
                tuple(sorted(use.container_id for use in self._uses.values() if _same(use, record))),
            )
            for _, record in sorted(self._images.items())
        )

    def config_of(self, reference: str) -> ImageConfig:
        """Return how an image of `images` wants to be run."""
        return self._images[reference].config

    @property
    def bytes(self) -> int:
        """What all layers take."""
        return sum(self._sizes.values())

    def uses(self) -> Collection[str]:
        """Return the containers that use an image."""
        return self._uses.keys()

    def use(self, image: Image, by: ContainerId) -> None:
        """Keep an image's layers until `release(by)`, also when this process is killed. Once a container.

        Raises ImageError when the image is gone by now, or the disk refuses.
        """
        missing = [diff_id for diff_id in image.config.diff_ids if diff_id not in self._sizes]
        if missing:
            raise ImageError(f"the image {image.reference} was removed from the store; pull it again")
        name = str(image.reference)
        use = UseRecord(container_id=by, reference=name, digest=image.digest, diff_ids=image.config.diff_ids)
        with disk_errors(self._folders.uses / by):
            self._use_records.save(use)
            self._uses[by] = use
            self._touch(name)

    def release(self, container_id: ContainerId) -> None:
        """A container no longer uses its image; nothing happens if it used none. Raises ImageError."""
        use = self._uses.get(container_id)
        if use is not None:
            with disk_errors(self._folders.uses / container_id):
                self._use_records.forget(container_id)
                del self._uses[container_id]
                self._touch(use.reference)

    async def prune(
        self, max_bytes: int | None = None, max_age_s: float | None = None, *, now_s: float | None = None
    ) -> Pruned:
        """Remove images unused for longer than `max_age_s`, then the longest unused until at most `max_bytes` are left.

        What a container uses or a pull needs stays. Layers that no image needs go in any case. Raises ImageError.
        """
        held_layers = {diff_id for use in self._uses.values() for diff_id in use.diff_ids} | self._puller.needed
        kept = [
            Kept(name, frozenset(record.config.diff_ids), record.used_at_s, self._is_held(record))
            for name, record in self._images.items()
        ]
        now_s = time.time() if now_s is None else now_s
        dropped = choose(kept, self._sizes, held_layers, max_bytes=max_bytes, max_age_s=max_age_s, now_s=now_s)
        # From here to the last rename nothing else runs in this event loop, so no pull can count on what goes.
        with disk_errors(self._folders.images):
            for name in dropped:
                self._records.forget(name)
                del self._images[name]
            needed = held_layers.union(*(record.config.diff_ids for record in self._images.values()))
            gone = [diff_id for diff_id in self._sizes if diff_id not in needed]
            trash = [self._folders.discard_layer(diff_id) for diff_id in gone]
            freed = sum(self._sizes.pop(diff_id) for diff_id in gone)
            self._folders.clean_downloads()
            for path in trash:
                await asyncio.to_thread(shutil.rmtree, path)
        return Pruned(dropped, freed)

    async def _join(self, key: tuple[str, bool], reference: ImageReference, progress: Tell | None) -> ImageRecord:
        listeners = self._listeners.setdefault(key, [])
        if progress is not None:
            listeners.append(progress)
        try:
            return await self._pulls.join(key, lambda: self._pull(reference, listeners))
        finally:
            if progress is not None:
                listeners.remove(progress)
            if key not in self._pulls.keys:
                self._listeners.pop(key, None)

    async def _pull(self, reference: ImageReference, listeners: list[Tell]) -> ImageRecord:
        def tell(progress: Progress) -> None:
            for listener in tuple(listeners):
                listener(progress)

        limit_s = self._limits.pull_timeout_s
        pulling = self._puller.pull(reference, tell)
        try:
            digest, config = await asyncio.wait_for(pulling, limit_s)
        except asyncio.TimeoutError:
            raise ImageError(f"pulling {reference} took longer than {limit_s:g} s") from None
        now_s, name = time.time(), str(reference)
        record = ImageRecord(
            reference=name,
            digest=digest,
            config=config,
            pulled_at_s=now_s,
            used_at_s=now_s,
            boot_id=self._folders.boot_id,
        )
        with disk_errors(self._folders.images / name):
            self._records.save(record)
        self._images[name] = record
        self._begin_settling(record)
        tell(Progress(name, "done", len(config.diff_ids), len(config.diff_ids)))
        return record

    def _begin_settling(self, record: ImageRecord) -> None:
        if record.boot_id:
            task = asyncio.create_task(self._settle(record))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, pulled: ImageRecord) -> None:
        """Note when an image is on the disk to stay. Containers need not wait for that: they end with the machine."""
        try:
            await asyncio.to_thread(self._folders.sync)
            now = self._images.get(pulled.reference)
            if now is not None and now.pulled_at_s == pulled.pulled_at_s:
                self._images[pulled.reference] = now = msgspec.structs.replace(now, boot_id="")
                self._records.save(now)
        except OSError as error:
            log.warning("cannot make %s outlast a power failure: %s", pulled.reference, error.strerror)

    def _image(self, record: ImageRecord) -> Image:
        # overlayfs refuses a layer twice. What the topmost of equal layers holds hides the lower ones.
        layers = list(dict.fromkeys(reversed(record.config.diff_ids)))
        folders = [self._folders.root(diff_id) for diff_id in layers]
        hiding = next((place for place, folder in enumerate(folders) if is_opaque(folder)), len(folders))
        folders = folders[: hiding + 1]
        return Image(ImageReference.parse(record.reference), record.digest, record.config, tuple(reversed(folders)))

    def _is_held(self, record: ImageRecord) -> bool:
        return self._held[record.reference] > 0 or any(_same(use, record) for use in self._uses.values())

    def _touch(self, name: str) -> None:
        if (record := self._images.get(name)) is not None:
            self._images[name] = record = msgspec.structs.replace(record, used_at_s=time.time())
            self._records.save(record)

    @contextmanager
    def _holding(self, name: str) -> Iterator[None]:
        self._held[name] += 1
        try:
            yield
        finally:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]


def _same(use: UseRecord, record: ImageRecord) -> bool:
    return (use.reference, use.digest) == (record.reference, record.digest)
