"""The agent's images: the store that its flags describe, and the clearing away of what nobody uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.errors import BadFlag, MesosGpuError
from mesos_gpu.images.credentials import DockerConfig
from mesos_gpu.images.progress import Progress, Tell
from mesos_gpu.images.sources import Source, open_source
from mesos_gpu.images.store import Image, ImageStore, Pruned, StoreLimits
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)


class Keep(Struct, frozen=True):
    """What is kept of unused images: at most so many bytes, for so long; None is no limit. Looked at every so often."""

    max_bytes: int | None = None
    max_age_s: float | None = None
    interval_s: float = 3600.0


class ImageSettings(Struct, frozen=True):
    """Where images come from and lie, how long a pull may take, and what is kept of them."""

    folder: Path
    source: Source
    limits: StoreLimits
    keep: Keep


class AgentImages:
    """A store, what is being pulled into it, and its clearing: the containerizer's `Images`. In one event loop."""

    def __init__(self, store: ImageStore, keep: Keep) -> None:
        self.store, self._keep = store, keep
        self._clearing: asyncio.Task[None] | None = None
        self._pulls: dict[int, Progress] = {}
        self._numbers = 0

    @property
    def pulls(self) -> list[Progress]:
        """Return how far each pull is, one for each image."""
        return list({progress.reference: progress for progress in self._pulls.values()}.values())

    async def recover(self, live: Collection[str] = ()) -> None:
        """Take up what an earlier process left, and begin to clear away. Raises Conflict, ImageError."""
        await self.store.recover(live)
        if self._keep.max_bytes is not None or self._keep.max_age_s is not None:
            self._clearing = asyncio.create_task(self._clear())

    async def pull(
        self, reference: str, progress: Tell | None = None, *, by: ContainerId | None = None, cached: bool = True
    ) -> Image:
        """Return an image, pulled if need be; see ImageStore.pull."""
        self._numbers += 1
        number = self._numbers

        def tell(step: Progress) -> None:
            if step.phase != "done":
                self._pulls[number] = step
            if progress is not None:
                progress(step)

        try:
            return await self.store.pull(reference, tell, by=by, cached=cached)
        finally:
            self._pulls.pop(number, None)

    def release(self, container_id: ContainerId) -> None:
        """A container no longer uses its image."""
        self.store.release(container_id)

    async def prune(self, max_bytes: int | None, max_age_s: float | None) -> Pruned:
        """Remove unused images; see ImageStore.prune."""
        return await self.store.prune(max_bytes, max_age_s)

    async def close(self) -> None:
        """Stop; what was stored stays."""
        if self._clearing is not None:
            self._clearing.cancel()
            with suppress(asyncio.CancelledError):
                await self._clearing
        await self.store.close()

    async def _clear(self) -> None:
        while True:
            try:
                pruned = await self.store.prune(self._keep.max_bytes, self._keep.max_age_s)
                if pruned.images:
                    log.info("removed %d unused images, %d MiB", len(pruned.images), pruned.bytes >> 20)
            except MesosGpuError as error:
                log.warning("cannot remove unused images: %s", error)
            await asyncio.sleep(self._keep.interval_s)


def image_settings(flags: AgentFlags, work_dir: Path) -> ImageSettings | None:
    """Return what the flags say of images, None for tasks without any. Raises BadFlag."""
    if "docker" not in flags.image_providers:
        return None
    return ImageSettings(
        folder=Path(flags.docker_store_dir or work_dir / "store" / "docker").absolute(),
        source=open_source(flags.docker_registry, config=_docker_config(flags.docker_config)),
        limits=StoreLimits(pull_timeout_s=flags.docker_pull_timeout),
        keep=Keep(flags.image_gc_max_size, flags.image_gc_max_age, flags.image_gc_interval),
    )


def open_images(settings: ImageSettings | None) -> AgentImages | None:
    """Return the images that an agent may run tasks in, None for none; nothing is contacted yet."""
    if settings is None:
        return None
    return AgentImages(ImageStore(settings.folder, settings.source, settings.limits), settings.keep)


def _docker_config(text: str | None) -> DockerConfig | None:
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            raise BadFlag("docker_config", f"cannot read {text}: {error.strerror}") from None
    return DockerConfig.parse(text)
