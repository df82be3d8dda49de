from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag, ImageError
from mesos_gpu.images.blobs import Partial
from mesos_gpu.images.layouts import Layouts
from mesos_gpu.images.manifest import Index, Manifest, Platform, read_config, read_manifest
from mesos_gpu.images.reference import ImageReference
from mesos_gpu.images.registry import Registry
from mesos_gpu.images.sources import Source, open_source
from tests.support.golden import Golden
from tests.support.images.build import BuiltImage, Layer, file, member, save_archive, sha256, tar_of, write_layout
from tests.support.images.registry import RealRegistry

CUDA = ImageReference.parse("nvidia/cuda")
IMAGE = BuiltImage(
    (Layer(tar_of(file("a", os.urandom(2 << 20))), "plain"), Layer(tar_of(file("b")), "plain")), {"Cmd": ["x"]}
)
PACKED = BuiltImage((Layer(tar_of(file("a", b"x" * 9999)), "gzip"), Layer(tar_of(file("b")), "zstd")), oci=True)


async def fetch(source: Source, image: BuiltImage, folder: Path, reference: ImageReference = CUDA) -> None:
    """Read an image through `source` and compare it with what was built."""
    document = await source.manifest(reference)
    manifest = read_manifest(document.data, document.media_type)
    if isinstance(manifest, Index):
        document = await source.manifest(reference, manifest.choose(Platform(image.architecture)).digest)
        manifest = read_manifest(document.data, document.media_type)
    assert isinstance(manifest, Manifest)
    assert document.digest == sha256(document.data)
    for blob in (manifest.config, *manifest.layers):
        told: list[int] = []
        partial = Partial(folder / blob.digest, blob)
        await source.blob(reference, blob, partial, told.append)
        partial.close()
        assert (folder / blob.digest).read_bytes() == image.blobs[blob.digest]
    assert read_config((folder / manifest.config.digest).read_bytes()).diff_ids == tuple(
        sha256(layer.tar) for layer in image.layers
    )


@asynccontextmanager
async def opened(flag: str) -> AsyncIterator[Source]:
    source = open_source(flag)
    try:
        yield source
    finally:
        await source.close()


@pytest.mark.parametrize(
    "flag", ["", "host:5000", "relative/folder", "hdfs://a/b", "/no/such/folder", "file:/no/such", "ftp://x"]
)
def test_flags_that_name_no_source_are_refused(flag: str) -> None:
    with pytest.raises(BadFlag, match="--docker_registry"):
        open_source(flag)


def test_a_url_is_a_registry() -> None:
    assert isinstance(open_source("https://registry-1.docker.io"), Registry)


@pytest.mark.parametrize("prefix", ["file:", "file://"])
def test_a_file_url_is_a_layout(tmp_path: Path, prefix: str) -> None:
    assert isinstance(open_source(f"{prefix}{tmp_path}"), Layouts)


@pytest.mark.parametrize("name", ["nvidia/cuda:latest.tar", "nvidia/cuda.tar"])
async def test_an_archive_is_found_by_the_images_name(tmp_path: Path, name: str) -> None:
    save_archive(tmp_path / name, IMAGE, "nvidia/cuda:latest")
    async with opened(str(tmp_path)) as source:
        await fetch(source, IMAGE, tmp_path)


async def test_archives_hold_layers_of_any_compression(tmp_path: Path) -> None:
    save_archive(tmp_path / "nvidia" / "cuda:latest.tar", PACKED, "other/name:1", "nvidia/cuda:latest")
    async with opened(str(tmp_path)) as source:
        await fetch(source, PACKED, tmp_path)


async def test_an_archive_without_a_tag_is_taken_by_its_name(tmp_path: Path) -> None:
    save_archive(tmp_path / "cuda:12.tar", IMAGE)
    async with opened(str(tmp_path)) as source:
        await fetch(source, IMAGE, tmp_path, ImageReference.parse("cuda:12"))


async def test_a_replaced_archive_is_read_again(tmp_path: Path) -> None:
    save_archive(tmp_path / "nvidia/cuda:latest.tar", IMAGE)
    async with opened(str(tmp_path)) as source:
        before = await source.manifest(CUDA)
        save_archive(tmp_path / "nvidia/cuda:latest.tar", PACKED)
        assert (await source.manifest(CUDA)).digest != before.digest
        await fetch(source, PACKED, tmp_path)


async def test_an_unknown_archive_says_where_it_should_lie(tmp_path: Path, golden: Golden) -> None:
    async with opened(str(tmp_path)) as source:
        with pytest.raises(ImageError) as refused:
            await source.manifest(CUDA)
        assert str(refused.value) == golden


async def test_an_archive_of_another_image_says_what_it_holds(tmp_path: Path, golden: Golden) -> None:
    save_archive(tmp_path / "nvidia/cuda:latest.tar", IMAGE, "nvidia/cuda:11")
    async with opened(str(tmp_path)) as source:
        with pytest.raises(ImageError) as refused:
            await source.manifest(CUDA)
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "content",
    [
        b"no tar",
        tar_of(file("else")),
        tar_of(file("manifest.json", b"{")),
        tar_of(file("manifest.json", b"[]")),
        tar_of(file("manifest.json", b'[{"Config": "c"}]')),
        tar_of(file("manifest.json", b'[{"Config": "c", "Layers": []}]'), member("c", b"2", linkname="c")),
    ],
)
async def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cuda.tar").write_bytes(content)
    async with opened(str(tmp_path)) as source:
        with pytest.raises(ImageError, match=r"not an archive|holds"):
            await source.manifest(ImageReference.parse("cuda"))


@pytest.mark.parametrize("name", ["nvidia/cuda:latest", "docker.io/nvidia/cuda:latest", "latest", ""])
async def test_an_image_is_found_in_a_layout(tmp_path: Path, name: str) -> None:
    write_layout(tmp_path / "layout", {name: PACKED} if not name else {name: PACKED, "else:1": IMAGE})
    async with opened(f"file:{tmp_path}/layout") as source:
        await fetch(source, PACKED, tmp_path)


async def test_a_layout_is_found_by_the_repository(tmp_path: Path) -> None:
    write_layout(tmp_path / "nvidia" / "cuda", {"latest": IMAGE})
    async with opened(f"file:{tmp_path}") as source:
        await fetch(source, IMAGE, tmp_path)
        await fetch(source, IMAGE, tmp_path, ImageReference.parse(f"nvidia/cuda@{IMAGE.digest}"))


async def test_an_unknown_image_names_those_of_the_layout(tmp_path: Path, golden: Golden) -> None:
    write_layout(tmp_path / "layout", {"a:1": IMAGE, "b:2": IMAGE})
    async with opened(f"file:{tmp_path}/layout") as source:
        with pytest.raises(ImageError) as refused:
            await source.manifest(CUDA)
        assert str(refused.value) == golden


async def test_what_is_no_layout_is_said(tmp_path: Path) -> None:
    async with opened(f"file:{tmp_path}") as source:
        with pytest.raises(ImageError, match="is an OCI layout"):
            await source.manifest(CUDA)


async def test_damaged_blobs_of_a_layout_are_refused(tmp_path: Path) -> None:
    write_layout(tmp_path / "layout", {"latest": IMAGE})
    for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    async with opened(f"file:{tmp_path}/layout") as source:
        with pytest.raises(ImageError, match="bad digest"):
            await source.manifest(CUDA, IMAGE.digest)
        descriptor = read_manifest(IMAGE.manifest)
        assert isinstance(descriptor, Manifest)
        with pytest.raises(ImageError, match="bad digest"):
            await source.blob(CUDA, descriptor.config, Partial(tmp_path / "blob", descriptor.config), lambda _: None)


def skopeo(*words: str) -> None:
    # No policy file is installed with the bare package.
    subprocess.run(["skopeo", "--insecure-policy", *words], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("target", "flag"),
    [
        ("oci:{0}/layout:nvidia/cuda:latest", "file:{0}/layout"),
        ("oci:{0}/layout:latest", "file:{0}/layout"),
        ("docker-archive:{0}/nvidia/cuda:latest.tar:nvidia/cuda:latest", "{0}"),
    ],
)
async def test_what_skopeo_writes_is_read(
    shared_registry: RealRegistry, tmp_path: Path, target: str, flag: str
) -> None:
    shared_registry.push("skopeo/cuda", IMAGE)
    (tmp_path / "nvidia").mkdir()
    target = target.format(tmp_path).replace("nvidia/cuda:latest.tar", "nvidia/cuda.tar")
    skopeo("copy", "--src-tls-verify=false", f"docker://{shared_registry.host}/skopeo/cuda:latest", target)
    async with opened(flag.format(tmp_path)) as source:
        document = await source.manifest(CUDA)
        manifest = read_manifest(document.data, document.media_type)
        if isinstance(manifest, Index):
            document = await source.manifest(CUDA, manifest.choose(Platform(IMAGE.architecture)).digest)
            manifest = read_manifest(document.data, document.media_type)
        assert isinstance(manifest, Manifest)
        partial = Partial(tmp_path / "config", manifest.config)
        await source.blob(CUDA, manifest.config, partial, lambda _: None)
        partial.close()
    config = read_config((tmp_path / "config").read_bytes())
    assert config.diff_ids == tuple(sha256(layer.tar) for layer in IMAGE.layers)
    assert config.cmd == ("x",)
