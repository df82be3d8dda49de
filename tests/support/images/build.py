"""Images made by tests: tars in memory, configs and manifests around them, put where images come from."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import requests

from mesos_gpu.images.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Platform
from mesos_gpu.images.zstd import zstd

Compression = Literal["gzip", "zstd", "plain"]
MACHINE = Platform.of_machine(platform.machine())
BUSYBOX = Path(shutil.which("busybox") or "/bin/busybox")
"""A static one: Debian's busybox-static, Fedora's busybox."""

COMMANDS = (
    "sh",
    "ls",
    "cat",
    "echo",
    "sleep",
    "true",
    "false",
    "id",
    "env",
    "pwd",
    "head",
    "sed",
    "tr",
    "printf",
    "mount",
)
OCI_LAYER = {"gzip": "+gzip", "zstd": "+zstd", "plain": ""}


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def member(name: str, kind: bytes = tarfile.REGTYPE, *, data: bytes = b"", **attributes: Any) -> tuple[Any, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, data


def file(name: str, data: bytes = b"", **attributes: Any) -> tuple[Any, bytes]:
    return member(name, data=data, **attributes)


def folder(name: str, **attributes: Any) -> tuple[Any, bytes]:
    return member(name, tarfile.DIRTYPE, **attributes)


def link(name: str, target: str) -> tuple[Any, bytes]:
    return member(name, tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[Any, bytes]:
    return member(name, tarfile.LNKTYPE, linkname=target)


def tar_of(*members: tuple[Any, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


@dataclass(frozen=True)
class Layer:
    tar: bytes
    compression: Compression = "gzip"

    @cached_property
    def blob(self) -> bytes:
        if self.compression == "gzip":
            return gzip.compress(self.tar, 1, mtime=0)
        return zstd.compress(self.tar) if self.compression == "zstd" else self.tar


@dataclass(frozen=True)
class BuiltImage:
    layers: Sequence[Layer]
    run: Mapping[str, Any] = field(default_factory=dict)
    """The config's `config`: Env, Entrypoint, Cmd, Labels, ..."""
    oci: bool = False
    architecture: str = MACHINE.architecture
    diff_ids: Sequence[str] | None = None
    """For lies; else those of the layers."""

    @cached_property
    def config(self) -> bytes:
        diff_ids = [sha256(layer.tar) for layer in self.layers] if self.diff_ids is None else list(self.diff_ids)
        rootfs = {"type": "layers", "diff_ids": diff_ids}
        return json.dumps(
            {"architecture": self.architecture, "os": "linux", "config": dict(self.run), "rootfs": rootfs}
        ).encode()

    @cached_property
    def manifest(self) -> bytes:
        base = "application/vnd.oci.image" if self.oci else "application/vnd.docker"
        kind = "{0}.layer.v1.tar{1}" if self.oci else "{0}.image.rootfs.diff.tar.gzip"
        layers = [
            {
                "mediaType": kind.format(base, OCI_LAYER[layer.compression]),
                "size": len(layer.blob),
                "digest": sha256(layer.blob),
            }
            for layer in self.layers
        ]
        config = f"{base}.config.v1+json" if self.oci else f"{base}.container.image.v1+json"
        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": self.media_type,
                "config": {"mediaType": config, "size": len(self.config), "digest": sha256(self.config)},
                "layers": layers,
            }
        ).encode()

    @property
    def media_type(self) -> str:
        return OCI_MANIFEST if self.oci else DOCKER_MANIFEST

    @property
    def digest(self) -> str:
        return sha256(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        return {sha256(data): data for data in (self.config, *(layer.blob for layer in self.layers))}


def base_layer() -> Layer:
    """A root filesystem of busybox and what belongs to it."""
    accounts = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    return Layer(
        tar_of(
            *(folder(name) for name in ("bin", "etc", "dev", "proc", "sys", "root", "usr", "usr/bin", "var")),
            folder("tmp", mode=0o1777),
            file("bin/busybox", BUSYBOX.read_bytes(), mode=0o755),
            *(link(f"bin/{name}", "busybox") for name in COMMANDS),
            file("etc/passwd", accounts),
            file("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
        )
    )


def busybox_image(*more: Layer, run: Mapping[str, Any] | None = None, oci: bool = False) -> BuiltImage:
    """An image that runs: busybox, and layers over it."""
    return BuiltImage((base_layer(), *more), {"Cmd": ["sh"], "Env": ["PATH=/bin:/usr/bin"], **(run or {})}, oci)


def cuda_image(*more: Layer) -> BuiltImage:
    """What stands for nvidia/cuda: its label asks for the driver volume."""
    return busybox_image(*more, run={"Labels": {"com.nvidia.volumes.needed": "nvidia_driver"}})


def index_of(images: Mapping[str, BuiltImage], *, oci: bool = False) -> bytes:
    """A manifest list; `images` by `ARCHITECTURE` or `ARCHITECTURE/VARIANT`."""
    entries = []
    for name, image in images.items():
        architecture, _, variant = name.partition("/")
        place = {"architecture": architecture, "os": "linux", **({"variant": variant} if variant else {})}
        entries.append(
            {"mediaType": image.media_type, "size": len(image.manifest), "digest": image.digest, "platform": place}
        )
    return json.dumps(
        {"schemaVersion": 2, "mediaType": OCI_INDEX if oci else DOCKER_LIST, "manifests": entries}
    ).encode()


def push(
    url: str, name: str, image: BuiltImage, *, tag: str | None = "latest", auth: tuple[str, str] | None = None
) -> None:
    """Put an image into a registry, under its digest alone if `tag` is None."""
    with requests.Session() as session:
        session.auth = auth
        for digest, data in image.blobs.items():
            begun = session.post(f"{url}/v2/{name}/blobs/uploads/")
            begun.raise_for_status()
            where = begun.headers["Location"]
            where += ("&" if "?" in where else "?") + f"digest={digest}"
            session.put(where, data=data, headers={"Content-Type": "application/octet-stream"}).raise_for_status()
        push_manifest(session, url, name, tag or image.digest, image.manifest, image.media_type)


def push_manifest(session: Any, url: str, name: str, tag: str, data: bytes, media_type: str) -> None:
    answer = session.put(f"{url}/v2/{name}/manifests/{tag}", data=data, headers={"Content-Type": media_type})
    answer.raise_for_status()


def save_archive(path: Path, image: BuiltImage, *tags: str) -> None:
    """What `docker save` writes."""
    layers = [file(f"{number}/layer.tar", layer.blob) for number, layer in enumerate(image.layers)]
    entry = {"Config": "config.json", "RepoTags": list(tags) or None, "Layers": [info.name for info, _ in layers]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        tar_of(file("config.json", image.config), *layers, file("manifest.json", json.dumps([entry]).encode()))
    )


def write_layout(path: Path, images: Mapping[str, BuiltImage]) -> None:
    """An OCI layout with images by ref name."""
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    entries = []
    for name, image in images.items():
        for digest, data in {**image.blobs, image.digest: image.manifest}.items():
            (blobs / digest.partition(":")[2]).write_bytes(data)
        notes = {"org.opencontainers.image.ref.name": name} if name else {}
        entries.append(
            {"mediaType": image.media_type, "size": len(image.manifest), "digest": image.digest, "annotations": notes}
        )
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
