"""Where images come from: what --docker_registry says, behind one interface."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mesos_gpu.errors import BadFlag
from mesos_gpu.images.blobs import Document, Partial, Received
from mesos_gpu.images.credentials import DockerConfig
from mesos_gpu.images.layouts import Layouts
from mesos_gpu.images.manifest import Descriptor
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.registry import Patience, Registry


class Source(Protocol):
    """Gives manifests and blobs by name. All methods raise ImageError."""

    async def manifest(self, reference: ImageReference, digest: str | None = None) -> Document:
        """Return the manifest or index of an image; with `digest`, the one of its manifests that is named so."""
        ...

    async def blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        """Bring a blob into its file and verify it."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def open_source(
    docker_registry: str, *, config: DockerConfig | None = None, patience: Patience | None = None
) -> Source:
    """Return what the flag names: `http(s)://HOST[:PORT]`, `/...` of `docker save` archives, or `file:/...` of layouts.

    Nothing is contacted yet. Raises BadFlag. The layouts are ours.

    Source: Mesos src/slave/containerizer/mesos/provisioner/docker/puller.cpp.
    """
    if docker_registry.startswith(("http://", "https://")):
        return Registry(docker_registry, config=config, patience=patience)
    if docker_registry.startswith("file:"):
        path = docker_registry.removeprefix("file:")
        return Layouts(_folder(path.removeprefix("//") if path.startswith("///") else path))
    if docker_registry.startswith("/"):
        from mesos_gpu.images.archives import Archives  # reads tarfile, which takes memory, and few agents need it

        return Archives(_folder(docker_registry))
    if docker_registry.startswith("hdfs:"):
        raise BadFlag("docker_registry", "hdfs is not supported; give a registry's URL or a folder")
    raise BadFlag(
        "docker_registry",
        f"{docker_registry!r} is no URL (http:// or https://) and no folder (/... of archives, file:/... of layouts)",
    )


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or not path.is_dir():
        raise BadFlag("docker_registry", f"{text} is not a folder; give its absolute path")
    return path
