"""From an image's name to a root file system that a container can be started in, and back to nothing.

The name is Mesos' (`slave/containerizer/mesos/provisioner`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from mesos_gpu.container.host.inside import find_image_user, make_folder
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.rootfs import mount_layers
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.life.remapping import Remapping
from mesos_gpu.container.spec.bundle import ImageRoot
from mesos_gpu.container.spec.config import ImageAsk
from mesos_gpu.container.spec.requirements import DriverFacts, unmet
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import ContainerError, ImageError
from mesos_gpu.images.progress import Progress, Tell
from mesos_gpu.images.store import Image
from mesos_gpu.mesos.ids import ContainerId

T = TypeVar("T")


class Images(Protocol):
    """What is asked of a store of images; `mesos_gpu.images.store.ImageStore` is the real one."""

    async def recover(self, live: Collection[ContainerId] = ()) -> None:
        """Take up what an earlier process left."""

    async def pull(
        self, reference: str, progress: Tell | None = None, *, by: ContainerId | None = None, cached: bool = True
    ) -> Image:
        """Return an image, which the container `by` uses from before this returns. Raises BadInput, ImageError."""

    def release(self, container_id: ContainerId) -> None:
        """The container no longer uses its image. Raises ImageError."""


class Provisioner:
    """The images of one agent's containers."""

    def __init__(
        self, images: Images, mounts: MountNamespace, bundles: Path, driver: DriverFacts, remapping: Remapping
    ) -> None:
        self._images, self._mounts, self._bundles, self._driver = images, mounts, bundles, driver
        self._remapping = remapping

    async def recover(self, live: Collection[ContainerId]) -> None:
        """Take up what containers used; call it once, first. Raises Conflict, ImageError."""
        await self._images.recover(live)

    async def fetch(self, container_id: ContainerId, ask: ImageAsk, progress: Callable[[str], None] | None) -> Image:
        """Return the image, pulled if need be; the store keeps it for the container until `release`.

        `progress` is told in words how far the pull is. Raises BadInput, ImageError, ContainerError when this machine's
        driver is not what the image needs.
        """

        def tell(step: Progress) -> None:
            if progress is not None and step.phase != "done":
                progress(str(step))

        try:
            image = await self._images.pull(ask.name, tell, by=container_id, cached=ask.cached)
        except ImageError as error:
            words = str(error)
            raise ImageError(words if ask.name in words else f"{ask.name}: {words}") from error
        problem = unmet(image.config, self._driver)
        if problem is not None:
            raise ContainerError(f"{ask.name}: {problem}")
        if not image.layers:
            raise ImageError(f"the image {ask.name} has no layers, so there is nothing in it to run")
        return image

    async def mount(self, container_id: ContainerId, image: Image, ids: IdRange | None = None) -> ImageRoot:
        """Mount an image for a container, in its bundle, with the folders that it says it has.

        With `ids` also where who has these numbers in a user namespace gets to it, and as he is to see it.
        """
        bundle = self._bundles / container_id
        folders = (*image.config.volumes, *filter(None, [image.config.workdir]))

        def make() -> Path:
            if ids is not None:
                root = mount_layers(bundle, image.layers, partial(self._remapping.show, ids), ids.first)
                for path in folders:
                    make_folder(root, path, ids.first)
                return self._remapping.show_root(container_id, root)
            root = mount_layers(bundle, image.layers)
            for path in folders:
                make_folder(root, path)
            return root

        # Shielded: a mount that is being made must be there to be undone.
        root = await _whole(self._mounts.run(make))
        return ImageRoot(str(root), image.config)

    async def user(self, root: ImageRoot) -> HostUser | None:
        """Return whom the image runs as, from its own files; None when it does not say. Raises BadInput."""
        if not root.config.user:
            return None
        return await self._mounts.run(partial(find_image_user, Path(root.path), root.config.user))

    def release(self, container_id: ContainerId) -> None:
        """The container, of which no file is left, no longer uses its image; without one nothing happens.

        Raises ImageError when the store cannot write that down.
        """
        self._images.release(container_id)


async def _whole(work: asyncio.Future[T]) -> T:
    """Wait for work to its end even when cancelled."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
