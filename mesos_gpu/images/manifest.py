"""What an image is made of: manifests and configs of Docker (v2, schema 2) and OCI, from bytes to values. Pure.

Sources: distribution "manifest v2 schema 2"; OCI image-spec manifest.md, image-index.md, config.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from mesos_gpu.errors import ImageError
from mesos_gpu.images.reference import is_digest

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPES = (DOCKER_MANIFEST, DOCKER_LIST, OCI_MANIFEST, OCI_INDEX)

MAX_MANIFEST = 4 << 20
MAX_CONFIG = 8 << 20
MAX_LAYERS = 500
"""As many as overlayfs takes; Docker itself stops at 127."""

ARCHITECTURES = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", "v8"),
    "armv7l": ("arm", "v7"),
    "ppc64le": ("ppc64le", ""),
}
"""The kernel's name of a machine, and the architecture and variant that images give it."""


class Platform(Struct, frozen=True):
    """What an image must be built for; `variant` "" is any."""

    architecture: str
    variant: str = ""
    os: str = "linux"

    @classmethod
    def of_machine(cls, machine: str) -> Platform:
        """Return the platform of `os.uname().machine`."""
        return cls(*ARCHITECTURES.get(machine, (machine, "")))

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


class Descriptor(Struct, frozen=True):
    """A blob by content: its digest, and its size in bytes."""

    digest: str
    size: int
    media_type: str = ""


class Manifest(Struct, frozen=True):
    """One image for one platform. `layers` go from the lowest to the topmost."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class Choice(Struct, frozen=True):
    """One manifest of an index; `platform` is None where the index does not say."""

    manifest: Descriptor
    platform: Platform | None
    name: str | None = None


class Index(Struct, frozen=True):
    """The manifests of an image for several platforms."""

    choices: tuple[Choice, ...]

    def choose(self, platform: Platform) -> Descriptor:
        """Return the manifest for `platform`: the very variant, else one without, else the first of the architecture.

        Raises ImageError naming the platforms there are.
        """
        fitting = [
            c
            for c in self.choices
            if c.platform is not None
            and (c.platform.os, c.platform.architecture) == (platform.os, platform.architecture)
        ]
        for variant in (platform.variant, ""):
            for choice in fitting:
                if choice.platform is not None and choice.platform.variant == variant:
                    return choice.manifest
        if fitting:
            return fitting[0].manifest
        if len(self.choices) == 1 and self.choices[0].platform is None:
            return self.choices[0].manifest
        there = ", ".join(sorted({str(c.platform) for c in self.choices if c.platform is not None})) or "none named"
        raise ImageError(f"the image is not there for {platform}, only for: {there}")


class ImageConfig(Struct, frozen=True):
    """How an image wants to be run. `entrypoint` and `cmd` are None where the image sets none.

    `env` has what stands before and after the first `=`. `diff_ids` are the digests of the uncompressed layers.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    workdir: str | None = None
    user: str | None = None
    volumes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str | None = None
    os: str | None = None
    diff_ids: tuple[str, ...] = ()


def read_manifest(data: bytes, media_type: str | None = None) -> Manifest | Index:
    """Return what a manifest's bytes say. `media_type` is what the sender called them; the document's own word wins.

    Raises ImageError: not a manifest, or one of a kind that is not supported.
    """
    document = _document(data, "manifest", MAX_MANIFEST)
    kind = document.get("mediaType") or media_type or ""
    if document.get("schemaVersion") != 2:
        raise ImageError("the image's manifest is of schema 1, which Docker gave up in 2019; push the image again")
    if "manifests" in document and kind in ("", DOCKER_LIST, OCI_INDEX):
        return Index(tuple(_choice(item) for item in _list(document, "manifests")))
    if "layers" in document and kind in ("", DOCKER_MANIFEST, OCI_MANIFEST):
        layers = tuple(_descriptor(item) for item in _list(document, "layers"))
        if len(layers) > MAX_LAYERS:
            raise ImageError(f"the image has {len(layers)} layers; overlayfs takes {MAX_LAYERS}")
        return Manifest(_descriptor(document.get("config")), layers)
    raise ImageError(f"not a manifest of a Docker or OCI image: {kind or 'of no media type'}")


def read_config(data: bytes) -> ImageConfig:
    """Return what an image's config says. Raises ImageError when it is not one."""
    document = _document(data, "config", MAX_CONFIG)
    run = document.get("config") or {}
    rootfs = document.get("rootfs") or {}
    if not isinstance(run, dict) or not isinstance(rootfs, dict):
        raise ImageError("damaged image config: config and rootfs must be objects")
    diff_ids = _texts(rootfs.get("diff_ids")) or ()
    if not all(map(is_digest, diff_ids)):
        raise ImageError("damaged image config: a diff_id is not a digest")
    labels = run.get("Labels") or {}
    volumes = run.get("Volumes") or {}
    if not isinstance(labels, dict) or not isinstance(volumes, dict):
        raise ImageError("damaged image config: Labels and Volumes must be objects")
    for name, texts in (("WorkingDir", [run.get("WorkingDir")]), ("User", [run.get("User")]), ("Volumes", volumes)):
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise ImageError(f"damaged image config: {name} has a NUL character; build the image again without it")
    return ImageConfig(
        env=_environment(_texts(run.get("Env")) or ()),
        entrypoint=_texts(run.get("Entrypoint")),
        cmd=_texts(run.get("Cmd")),
        workdir=_text(run.get("WorkingDir")),
        user=_text(run.get("User")),
        volumes=tuple(sorted(volumes)),
        labels={key: str(value) for key, value in labels.items()},
        architecture=_text(document.get("architecture")),
        os=_text(document.get("os")),
        diff_ids=diff_ids,
    )


def _document(data: bytes, what: str, limit: int) -> dict[str, Any]:
    if len(data) > limit:
        raise ImageError(f"the image's {what} has {len(data)} bytes; at most {limit} are taken")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImageError(f"damaged image {what}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ImageError(f"damaged image {what}: not an object")
    return document


def _list(document: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = document.get(key)
    if not isinstance(value, list):
        raise ImageError(f"damaged image manifest: {key} must be a list")
    return value


def _descriptor(value: Any) -> Descriptor:
    if isinstance(value, dict) and is_digest(value.get("digest")):
        size, kind = value.get("size"), value.get("mediaType")
        if isinstance(size, int) and size >= 0:
            return Descriptor(value["digest"], size, kind if isinstance(kind, str) else "")
    raise ImageError(f"damaged image manifest: not the digest and size of a blob: {str(value)[:200]}")


def _choice(value: Any) -> Choice:
    descriptor = _descriptor(value)
    platform, notes = value.get("platform"), value.get("annotations")
    name = notes.get("org.opencontainers.image.ref.name") if isinstance(notes, dict) else None
    if not isinstance(platform, dict):
        return Choice(descriptor, None, _text(name))
    words = (_text(platform.get(key)) or "" for key in ("architecture", "variant", "os"))
    return Choice(descriptor, Platform(*words), _text(name))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ImageError(f"damaged image config: not a list of texts: {str(value)[:200]}")
    return tuple(value)


def _environment(entries: Sequence[str]) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name}
