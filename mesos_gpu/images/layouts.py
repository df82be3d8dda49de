"""Images from OCI layouts in folders. Source: OCI image-spec image-layout.md."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.errors import ImageError
from mesos_gpu.images.blobs import Document, Partial, Received, copy_blob, copy_in_thread
from mesos_gpu.images.manifest import MAX_MANIFEST, OCI_INDEX, Descriptor
from mesos_gpu.images.reference import DEFAULT_TAG, DOCKER_HUB, ImageReference, is_digest

REF_NAME = "org.opencontainers.image.ref.name"


class Layouts:
    """A `Source`: a layout, or a folder with a layout in `<repository>/`.

    An image is found by its whole name or its tag alone, as `skopeo copy ... oci:FOLDER:TAG` writes either.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def manifest(self, reference: ImageReference, digest: str | None = None) -> Document:
        """Return a manifest: of that digest, or an index of all that have the reference's name. Raises ImageError."""
        return await asyncio.to_thread(self._manifest, reference, digest or reference.digest)

    async def blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        """Copy a blob. Raises ImageError."""
        await copy_in_thread(partial(self._copy, reference, blob, into), received)

    async def close(self) -> None:
        """Nothing is held."""

    def _copy(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        path = _blob_path(self._layout(reference), blob.digest)
        try:
            with path.open("rb") as file:
                copy_blob(file, into, received)
        except OSError as error:
            raise ImageError(f"cannot read {path}: {error.strerror}") from error

    def _manifest(self, reference: ImageReference, digest: str | None) -> Document:
        layout = self._layout(reference)
        if digest is not None:
            data = _read(_blob_path(layout, digest))
            algorithm = digest.partition(":")[0]
            found = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
            if found != digest:
                raise ImageError(f"bad digest: the manifest of {reference} is {found}, it should be {digest}")
            return Document(data, None, digest)
        data = msgspec.json.encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": _named(layout, reference)})
        return Document(data, OCI_INDEX, f"sha256:{hashlib.sha256(data).hexdigest()}")

    def _layout(self, reference: ImageReference) -> Path:
        for folder in (self._folder, self._folder / reference.name, self._folder / reference.repository):
            if (folder / "oci-layout").is_file():
                return folder
        raise ImageError(f"unknown image: neither {self._folder} nor {self._folder / reference.name} is an OCI layout")


def _named(layout: Path, reference: ImageReference) -> list[Any]:
    try:
        manifests = msgspec.json.decode(_read(layout / "index.json"))["manifests"]
        names = [(item.get("annotations") or {}).get(REF_NAME) for item in manifests]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(f"{layout / 'index.json'} is not an OCI index: {error}") from error
    wanted = {str(reference), str(reference.on(DOCKER_HUB)), reference.tag}
    found = [item for item, name in zip(manifests, names, strict=True) if name in wanted]
    if not found and len(manifests) == 1 and names == [None] and reference.tag == DEFAULT_TAG:
        return list(manifests)
    if not found:
        there = ", ".join(str(name) for name in names if name) or "no names"
        raise ImageError(f"unknown image: {reference} is not in the OCI layout {layout}, which has {there}")
    return found


def _blob_path(layout: Path, digest: str) -> Path:
    if not is_digest(digest):
        raise ImageError(f"{digest!r} is not a digest")
    algorithm, _, number = digest.partition(":")
    return layout / "blobs" / algorithm / number


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_MANIFEST + 1)
    except OSError as error:
        raise ImageError(f"cannot read {path}: {error.strerror}") from error
