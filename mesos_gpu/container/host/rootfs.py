"""The root file system of a container in an image: its layers under one writable folder, as overlayfs puts them.

All lies in the container's bundle: `upper` and `work` are the kernel's, and `rootfs` is where it is mounted. The kernel
takes no more than a page of options: layers are named from the store's folder, and where such names are too many for a
page, by short links in `layers`.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mesos_gpu.base.linux import libc
from mesos_gpu.errors import ContainerError

OPTIONS = "index=off,metacopy=off,redirect_dir=nofollow"
"""Layers are shared, so nothing may be recorded in them (index); and come from strangers, so nothing in them may name
files elsewhere (metacopy, redirect_dir)."""

VOLATILE = "volatile"
"""Nothing of a container outlives the machine, so its files need not be flushed at its end. Since Linux 5.10."""


NOT_IN_OPTIONS = frozenset(",:\\")
"""What has a meaning of its own in a mount's options."""

OTHER_OPTIONS = 160
"""Bytes that options need beside the names of layers and twice the bundle's."""

Show = Callable[[Path, Path], None]
"""Mounts a folder at a place, which it makes, as a user namespace is to see it."""


def mount_layers(bundle: Path, layers: Sequence[Path], show: Show | None = None, owner: int = 0) -> Path:
    """Mount `layers`, the lowest first, with a writable folder on top; return where. In the mounts' own thread only.

    With `show` layers are seen as a user namespace is to see them, whose root is the host's user `owner`. The host
    does not see the mounts, and whoever removes the bundle ends them. Raises ContainerError when the kernel refuses.
    """
    root, links, upper = bundle / "rootfs", bundle / "layers", bundle / "upper"
    try:
        for folder in (root, upper, bundle / "work"):
            folder.mkdir()
        upper.chmod(0o755)
        os.chown(upper, owner, owner)
        where, short = str(bundle), None
        if show is None and NOT_IN_OPTIONS.isdisjoint(where):
            short = short_names(layers, mmap.PAGESIZE - 2 * len(os.fsencode(where)) - OTHER_OPTIONS)
        if short is None:
            where = ".."
            links.mkdir()
            for number, layer in enumerate(layers):
                if show is None:
                    (links / str(number)).symlink_to(layer)
                else:
                    show(layer, links / str(number))
            short = str(links), [str(number) for number in range(len(layers))]
        around, names = short
        options = f"lowerdir={':'.join(reversed(names))},upperdir={where}/upper,workdir={where}/work,{OPTIONS}"
        # The working directory is this thread's alone, as its mounts are: unshare(2), CLONE_NEWNS.
        os.chdir(around)
        try:
            try:
                _mount(root, f"{options},{VOLATILE}")
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                _mount(root, options)
        finally:
            os.chdir("/")
    except OSError as error:
        raise ContainerError(f"cannot mount the image's {len(layers)} layers: {error.strerror}") from error
    return root


def short_names(layers: Sequence[Path], room: int) -> tuple[str, list[str]] | None:
    """Return a folder and the layers' names from there, None when those need more than `room` bytes. Pure.

    None also for names that would be taken for something else, in options or by the overlay.
    """
    around = os.path.commonpath([layer.parent for layer in layers])
    names = [str(layer.relative_to(around)) for layer in layers]
    fits = sum(len(os.fsencode(name)) + 1 for name in names) <= room
    return (around, names) if fits and NOT_IN_OPTIONS.isdisjoint("".join(names)) else None


def _mount(root: Path, options: str) -> None:
    libc.mount("overlay", root, "overlay", libc.MS_NODEV, options)
