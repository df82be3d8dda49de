"""What goes wrong with a pull leaves nothing behind: hostile images, damaged blobs, a full disk, a dying worker."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, ImageError
from mesos_gpu.images.manifest import Platform
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore, StoreLimits
from tests.support.golden import Golden
from tests.support.images.build import BuiltImage, Layer, file, sha256, tar_of
from tests.support.images.registry import RealRegistry
from tests.support.images.store import EMPTY, ONE, TWO, Watched, children, contents, opened

pytestmark = pytest.mark.root  # layers are unpacked with their owners


HOSTILE = Layer(tar_of(file("d/one"), file("../../escaped", b"evil")))


@pytest.mark.parametrize(
    "image",
    [
        BuiltImage((ONE, HOSTILE)),
        BuiltImage((ONE,), diff_ids=[sha256(TWO.tar)]),
        BuiltImage((ONE, TWO), diff_ids=[sha256(ONE.tar)]),
        BuiltImage((ONE,), architecture="s390x"),
        BuiltImage((Layer(b"BZh91AY&SY", "plain"),)),
    ],
)
async def test_a_bad_image_leaves_nothing(
    registry: RealRegistry, tmp_path: Path, image: BuiltImage, golden: Golden
) -> None:
    registry.push("bad", image)
    registry.push("good", BuiltImage((ONE,)))
    async with opened(tmp_path / "store", open_source(registry.url)) as store:
        with pytest.raises(ImageError) as refused:
            await store.pull("bad")
        assert str(refused.value) == golden.hide(platform=Platform.of_machine(platform.machine()))
        await store.prune()
        left = contents(tmp_path / "store")
        assert {**left, "downloads": 0} == EMPTY
        assert store.images() == ()
        assert len((await store.pull("good")).layers) == 1
    assert not [path for path in tmp_path.rglob("escaped")]


async def test_damaged_blobs_in_the_registry_are_refused(
    registry: RealRegistry, tmp_path: Path, golden: Golden
) -> None:
    registry.push("cuda", BuiltImage((ONE, TWO)))
    path = registry.blob_path(sha256(TWO.blob))
    path.write_bytes(b"\0" * path.stat().st_size)
    async with opened(tmp_path / "store", open_source(registry.url)) as store:
        with pytest.raises(ImageError) as refused:
            await store.pull("cuda")
        assert str(refused.value) == golden


async def test_unknown_names_and_bad_names(store: ImageStore, golden: Golden) -> None:
    with pytest.raises(ImageError) as refused:
        await store.pull("nothing")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        await store.pull("No Name")
    assert str(refused.value) == golden


async def test_a_pull_may_not_take_for_ever(tmp_path: Path, archives: Watched, golden: Golden) -> None:
    archives.add("cuda", BuiltImage((ONE,)))
    archives.gate.clear()
    async with opened(tmp_path / "store", archives, StoreLimits(pull_timeout_s=0.05)) as store:
        with pytest.raises(ImageError) as refused:
            await store.pull("cuda")
        assert str(refused.value) == golden
    assert contents(tmp_path / "store") | {"downloads": 0} == EMPTY


async def test_a_full_disk_is_told_and_left_as_it_was(small_disk: Path, archives: Watched, golden: Golden) -> None:
    archives.add("big", BuiltImage((Layer(tar_of(file("big", b"\0" * (1 << 20)))),)))
    archives.add("huge", BuiltImage((Layer(tar_of(file("huge", os.urandom(1 << 20)))),)))
    archives.add("small", BuiltImage((ONE,)))
    async with opened(small_disk / "store", archives) as store:
        with pytest.raises(ImageError) as refused:
            await store.pull("big")
        assert str(refused.value) == golden
        with pytest.raises(ImageError) as refused:
            await store.pull("huge")
        assert str(refused.value) == golden
        assert {**contents(small_disk / "store"), "downloads": 0} == EMPTY
        await store.pull("small")


async def test_a_dying_worker_is_an_error_and_the_next_pull_works(
    store: ImageStore, archives: Watched, golden: Golden
) -> None:
    archives.add("cuda", BuiltImage((Layer(tar_of(file("big", os.urandom(1 << 20) * 64)), "plain"),)))

    extracting = asyncio.Event()

    async def kill() -> None:
        await extracting.wait()
        while not children():  # noqa: ASYNC110 - the kernel's word
            await asyncio.sleep(0.001)
        os.kill(int(children()[0]), signal.SIGKILL)

    with pytest.raises(ImageError) as refused:
        await asyncio.gather(store.pull("cuda", lambda told: told.phase == "extracting" and extracting.set()), kill())
    assert str(refused.value) == golden
    assert len((await store.pull("cuda")).layers) == 1
