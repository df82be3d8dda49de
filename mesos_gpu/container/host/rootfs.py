"""The root file system of a container in an image: its layers under one writable folder, as overlayfs puts them.

All lies in the container's bundle: `upper` and `work` are the kernel's, `layers` has short links to the layers, since
the kernel takes no more than a page of options, and `rootfs` is where it is mounted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mesos_gpu.container.host.mounts import MS_NODEV, call
from mesos_gpu.errors import ContainerError

OPTIONS = "index=off,metacopy=off,redirect_dir=nofollow"
"""Layers are shared, so nothing may be recorded in them (index); and come from strangers, so nothing in them may name
files elsewhere (metacopy, redirect_dir)."""

VOLATILE = "volatile"
"""Nothing of a container outlives the machine, so its files need not be flushed at its end. Since Linux 5.10."""


Show = Callable[[Path, Path], None]
"""Mounts a folder at a place, which it makes, as a user namespace is to see it."""


def mount_layers(bundle: Path, layers: Sequence[Path], show: Show | None = None, owner: int = 0) -> Path:
    """Mount `layers`, the lowest first, with a writable folder on top; return where. In the mounts' own thread only.

    With `show` layers are seen as a user namespace is to see them, whose root is the host's user `owner`. The host
    does not see the mounts, and whoever removes the bundle ends them. Raises ContainerError when the kernel refuses.
    """
    root, links, upper = bundle / "rootfs", bundle / "layers", bundle / "upper"
    try:
        for folder in (root, links, upper, bundle / "work"):
            folder.mkdir()
        upper.chmod(0o755)
        os.chown(upper, owner, owner)
        for number, layer in enumerate(layers):
            if show is None:
                (links / str(number)).symlink_to(layer)
            else:
                show(layer, links / str(number))
        lower = ":".join(str(number) for number in reversed(range(len(layers))))
        options = f"lowerdir={lower},upperdir=../upper,workdir=../work,{OPTIONS}"
        # The working directory is this thread's alone, as its mounts are: unshare(2), CLONE_NEWNS.
        os.chdir(links)
        try:
            try:
                _mount(f"{options},{VOLATILE}")
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                _mount(options)
        finally:
            os.chdir("/")
    except OSError as error:
        raise ContainerError(f"cannot mount the image's {len(layers)} layers: {error.strerror}") from error
    return root


def _mount(options: str) -> None:
    call("mount", b"overlay", b"../rootfs", b"overlay", MS_NODEV, options.encode())
