"""Images from a folder of `docker save` archives, named `<image>:<tag>.tar` as Mesos' local puller wants them.

Sources: Mesos docs/container-image.md and `provisioner/docker/image_tar_puller.cpp`; Docker image spec v1.2, "combined
image JSON + filesystem changeset format". A `/` in the image's name is a folder, as in Mesos.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import posixpath
import re
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from mesos_gpu.errors import ImageError
from mesos_gpu.images.blobs import CHUNK, Document, Partial, Received, copy_blob, copy_in_thread
from mesos_gpu.images.compression import is_compressed
from mesos_gpu.images.manifest import DOCKER_MANIFEST, MAX_CONFIG, MAX_MANIFEST, Descriptor, read_config
from mesos_gpu.images.reference import DEFAULT_TAG, DOCKER_HUB, ImageReference

_BLOB = re.compile(r"blobs/(sha256)/([0-9a-f]{64})")


class _Archive(Struct, frozen=True):
    signature: tuple[int, int, int]
    manifest: Document
    places: dict[str, tuple[int, int]]
    """Where each blob lies in the archive: offset and size."""


class Archives:
    """A `Source`: a folder of archives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, _Archive] = {}

    async def manifest(self, reference: ImageReference, digest: str | None = None) -> Document:
        """Return a manifest made from an archive's own, which has no digests. Raises ImageError."""
        archive = await asyncio.to_thread(self._archive, reference)
        if digest not in (None, archive.manifest.digest):
            raise ImageError(f"unknown image: {reference} has no manifest {digest}")
        return archive.manifest

    async def blob(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        """Copy a config or layer out of the archive. Raises ImageError."""
        await copy_in_thread(partial(self._copy, reference, blob, into), received)

    async def close(self) -> None:
        """Nothing is held."""

    def _copy(self, reference: ImageReference, blob: Descriptor, into: Partial, received: Received) -> None:
        archive = self._archive(reference)
        if blob.digest not in archive.places:
            raise ImageError(f"the archive of {reference} has no {blob.digest}")
        offset, size = archive.places[blob.digest]
        with self._path(reference).open("rb") as file:
            file.seek(offset)
            copy_blob(_Slice(file, size), into, received)

    def _path(self, reference: ImageReference) -> Path:
        names = [f"{reference}.tar"]
        if reference.tag == DEFAULT_TAG and not reference.digest:
            names.append(f"{reference.name}.tar")
        for name in names:
            if (path := self._folder / name).is_file():
                return path
        raise ImageError(f"unknown image: there is no archive {self._folder / names[0]}")

    def _archive(self, reference: ImageReference) -> _Archive:
        path = self._path(reference)
        try:
            there = path.stat()
            signature = (there.st_mtime_ns, there.st_size, there.st_ino)
            known = self._read.get(path)
            if known is None or known.signature != signature:
                with tarfile.open(path, "r:") as tar:
                    known = self._read[path] = _Archive(signature, *_read_archive(tar, reference))
        except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ImageError(f"{path} is not an archive as `docker save` writes it: {error}") from error
        except OSError as error:
            raise ImageError(f"cannot read {path}: {error.strerror or error}") from error
        return known


class _Slice:
    """So many bytes of a file, from where it stands."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _read_archive(tar: tarfile.TarFile, reference: ImageReference) -> tuple[Document, dict[str, tuple[int, int]]]:
    entry = _choose(_json(tar, "manifest.json"), reference)
    config_data = _content(tar, entry["Config"], MAX_CONFIG)
    config = read_config(config_data)
    if len(config.diff_ids) != len(entry["Layers"]):
        raise ImageError(f"the archive of {reference} has {len(entry['Layers'])} layers; its config says otherwise")
    places, layers = {}, []
    for name, diff_id in zip(entry["Layers"], config.diff_ids, strict=True):
        member = _member(tar, name)
        digest = _digest(tar, member, diff_id)
        places[digest] = (member.offset_data, member.size)
        layers.append({"mediaType": "", "size": member.size, "digest": digest})
    config_digest = f"sha256:{hashlib.sha256(config_data).hexdigest()}"
    places[config_digest] = (_member(tar, entry["Config"]).offset_data, len(config_data))
    manifest = {
        "schemaVersion": 2,
        "mediaType": DOCKER_MANIFEST,
        "config": {"mediaType": "", "size": len(config_data), "digest": config_digest},
        "layers": layers,
    }
    data = msgspec.json.encode(manifest)
    return Document(data, DOCKER_MANIFEST, f"sha256:{hashlib.sha256(data).hexdigest()}"), places


def _choose(entries: Any, reference: ImageReference) -> dict[str, Any]:
    names = {str(reference), str(reference.on(DOCKER_HUB))}
    for entry in entries:
        if names.intersection(_tags(entry)):
            return dict(entry)
    if len(entries) == 1 and not _tags(entries[0]):
        return dict(entries[0])
    tags = ", ".join(tag for entry in entries for tag in _tags(entry)) or "images without a tag"
    raise ImageError(f"unknown image: the archive for {reference} holds {tags}")


def _tags(entry: Any) -> Sequence[str]:
    return entry.get("RepoTags") or ()


def _json(tar: tarfile.TarFile, name: str) -> Any:
    try:
        return msgspec.json.decode(_content(tar, name, MAX_MANIFEST))
    except msgspec.DecodeError as error:
        raise ValueError(f"{name}: {error}") from error


def _member(tar: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    member = tar.getmember(name)
    for _ in range(4):  # Docker before 20 links equal layers to one another
        if not member.issym():
            break
        member = tar.getmember(posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname)))
    if not member.isreg() or member.sparse is not None:
        raise ValueError(f"{name} is not a file")
    return member


def _content(tar: tarfile.TarFile, name: str, limit: int) -> bytes:
    member = _member(tar, name)
    file = tar.extractfile(member)
    if file is None or member.size > limit:
        raise ValueError(f"{name} has {member.size} bytes, at most {limit} are taken")
    return file.read()


def _digest(tar: tarfile.TarFile, member: tarfile.TarInfo, diff_id: str) -> str:
    """Return a layer's digest: in its name; or its diff_id, as Docker saves layers plain; or computed."""
    if named := _BLOB.fullmatch(member.name):
        return f"{named[1]}:{named[2]}"
    file = tar.extractfile(member)
    assert file is not None
    if not is_compressed(file.read(4)):
        return diff_id
    file.seek(0, os.SEEK_SET)
    found = hashlib.sha256()
    while chunk := file.read(CHUNK):
        found.update(chunk)
    return f"sha256:{found.hexdigest()}"
