"""Pulls into the store: from a registry or an archive, once, shared, given up, begun again."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
import requests

from mesos_gpu.images.manifest import Platform
from mesos_gpu.images.progress import Progress
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore
from tests.support.images.build import BuiltImage, Layer, cuda_image, file, index_of, push_manifest, sha256, tar_of
from tests.support.images.registry import RealRegistry
from tests.support.images.store import EMPTY, ONE, THREE, TWO, Watched, children, contents, layer, opened

pytestmark = pytest.mark.root  # layers are unpacked with their owners


async def test_an_image_comes_from_a_real_registry(shared_registry: RealRegistry, tmp_path: Path) -> None:
    image = cuda_image(ONE, TWO, THREE)
    shared_registry.push("nvidia/cuda", image)
    told: list[Progress] = []
    async with opened(tmp_path / "store", open_source(shared_registry.url)) as store:
        pulled = await store.pull("nvidia/cuda", told.append)
        assert contents(tmp_path / "store") == {**EMPTY, "images": 1, "layers": 4}
    assert (str(pulled.reference), pulled.digest) == ("nvidia/cuda:latest", image.digest)
    assert pulled.config.labels == {"com.nvidia.volumes.needed": "nvidia_driver"}
    assert [path.parent.name for path in pulled.layers] == [sha256(x.tar).replace(":", "-") for x in image.layers]
    assert (pulled.layers[0] / "bin/busybox").stat().st_mode & 0o777 == 0o755
    assert (pulled.layers[2] / "d/two").read_bytes() == b"two" * 1000
    assert told[0] == Progress("nvidia/cuda:latest", "resolving")
    assert told[-1] == Progress("nvidia/cuda:latest", "done", 4, 4)
    assert [p.bytes_done for p in told[:-1]] == sorted(p.bytes_done for p in told[:-1])
    assert told[-2].bytes_done == told[-2].bytes_total == sum(len(x.blob) for x in image.layers)
    phases = [p.phase for p in told]
    assert phases == sorted(phases, key=["resolving", "downloading", "extracting", "done"].index)


async def test_the_manifest_of_this_machine_is_taken_from_a_list(shared_registry: RealRegistry, tmp_path: Path) -> None:
    images = {name: BuiltImage((layer(name),), architecture=name) for name in ("amd64", "arm64")}
    for image in images.values():
        shared_registry.push(f"multi/cuda@{image.digest}", image)
    with requests.Session() as session:
        data = index_of(images)
        push_manifest(session, shared_registry.url, "multi/cuda", "latest", data, json.loads(data)["mediaType"])
    for name, image in images.items():
        source = open_source(shared_registry.url)
        async with opened(tmp_path / name, source, platform=Platform(name)) as store:
            pulled = await store.pull("multi/cuda")
        assert pulled.digest == image.digest
        assert (pulled.layers[0] / "d" / name).exists()


async def test_an_image_in_the_store_is_not_asked_for_again(store: ImageStore, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))
    first = await store.pull("cuda")
    asked = archives.asked.copy()
    told: list[Progress] = []
    assert await store.pull("cuda:latest", told.append) == first
    assert told == [Progress("cuda:latest", "done", 2, 2)]
    assert archives.asked == asked


async def test_a_moved_name_is_followed_only_when_asked(store: ImageStore, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE,)))
    old = await store.pull("cuda", by="container")
    archives.add("cuda", BuiltImage((ONE, TWO)))
    assert (await store.pull("cuda")).digest == old.digest
    new = await store.pull("cuda", cached=False)
    assert new.digest != old.digest
    assert archives.asked[sha256(ONE.blob)] <= 1
    assert len(store.images()) == 1


async def test_layers_are_shared_between_images_whatever_their_compression(
    store: ImageStore, archives: Watched, tmp_path: Path
) -> None:
    archives.add("one", BuiltImage((ONE, TWO)))
    archives.add("two", BuiltImage((Layer(ONE.tar, "plain"), THREE)))
    one, two = await store.pull("one"), await store.pull("two")
    assert one.layers[0] == two.layers[0]
    assert contents(tmp_path / "store")["layers"] == 3
    assert store.bytes == len(b"one" * 1000 + b"two" * 1000 + b"three" * 1000)


async def test_pulls_at_the_same_time_are_done_once(store: ImageStore, archives: Watched) -> None:
    archives.add("one", BuiltImage((ONE, TWO)))
    archives.add("two", BuiltImage((ONE, TWO), {"Cmd": ["another config"]}))
    told: list[list[Progress]] = [[] for _ in range(10)]
    archives.gate.clear()
    names = ("one", "two") * 5
    pulls = [asyncio.create_task(store.pull(name, tell.append)) for name, tell in zip(names, told, strict=True)]
    await archives.waiting.wait()
    archives.gate.set()
    images = await asyncio.gather(*pulls)
    assert len(set(archives.asked.values())) == 1
    assert {image.layers for image in images} == {images[0].layers}
    assert all(tell[-1].phase == "done" for tell in told)


async def test_one_who_gives_up_does_not_disturb_another(store: ImageStore, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))
    archives.gate.clear()
    first, second = (asyncio.create_task(store.pull("cuda")) for _ in range(2))
    await archives.waiting.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    archives.gate.set()
    assert len((await second).layers) == 2


async def test_a_pull_that_is_given_up_leaves_nothing_and_can_be_done_again(
    store: ImageStore, archives: Watched, tmp_path: Path
) -> None:
    big = Layer(tar_of(file("big", os.urandom(1 << 20) * 64)), "plain")
    archives.add("cuda", BuiltImage((ONE, big)))
    extracting = asyncio.Event()
    pull = asyncio.create_task(
        store.pull("cuda", lambda told: extracting.set() if told.phase == "extracting" else None)
    )
    await extracting.wait()
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert children() == []
    left = contents(tmp_path / "store")
    assert (left["images"], left["unpacking"]) == (0, 0)
    assert len((await store.pull("cuda")).layers) == 2
    assert contents(tmp_path / "store") == {**EMPTY, "images": 1, "layers": 2}
