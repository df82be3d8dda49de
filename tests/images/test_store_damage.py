"""A store one of whose records is damaged: what live containers use stays, and what nobody uses is pulled again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.images.store import Image, ImageStore
from tests.support.images.build import BuiltImage
from tests.support.images.store import ONE, ROOMY, THREE, TWO, Watched, contents, opened

pytestmark = pytest.mark.root  # layers are unpacked with their owners

WAYS: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "emptied": lambda _: b"",
    "garbage": lambda whole: bytes(byte ^ 0xA5 for byte in whole),
    "another type": lambda _: b"[7]",
    "another version": lambda whole: json.dumps(
        {f"new_{key}": value for key, value in json.loads(whole).items()}
    ).encode(),
    "another's": lambda whole: (
        whole.replace(b"alive", b"dying").replace(b"sha256:", b"sha512:").replace(b"used", b"lost")
    ),
}
RECORDS = ("uses/*.json", "layers/*/layer.json", "images/*.json")


@asynccontextmanager
async def reopened(directory: Path, archives: Watched) -> AsyncIterator[ImageStore]:
    store = ImageStore(directory, archives, ROOMY)
    await store.recover(["alive", "without an image"])
    try:
        yield store
    finally:
        await store.close()


def damage(directory: Path, pattern: str, way: str) -> None:
    found = sorted(directory.glob(pattern))
    assert found
    for path in found:
        path.write_bytes(WAYS[way](path.read_bytes()))


async def filled(directory: Path, archives: Watched) -> Image:
    """Fill a store: an image that a container uses, and one that nobody does."""
    archives.add("used", BuiltImage((ONE, TWO)))
    archives.add("idle", BuiltImage((THREE,)))
    async with opened(directory, archives) as store:
        image = await store.pull("used", by="alive")
        store.use(image, "dead")
        await store.pull("idle")
    return image


def files(image: Image) -> dict[str, bytes]:
    return {
        str(path.relative_to(layer)): path.read_bytes()
        for layer in image.layers
        for path in layer.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [*RECORDS, "all"])
async def test_layers_of_a_live_container_stay(
    tmp_path: Path, archives: Watched, kind: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "store"
    image = await filled(directory, archives)
    before = files(image)
    assert len(before) == 2
    for pattern in RECORDS if kind == "all" else (kind,):
        damage(directory, pattern, way)
    for _ in range(2):  # the second time all is as the first has left it
        async with reopened(directory, archives) as store:
            assert set(store.uses()) == {"alive"}
            await store.prune(0)
            assert files(image) == before
    assert " is damaged" in caplog.text
    asked = archives.asked.copy()
    async with reopened(directory, archives) as store:
        assert await store.pull("used") == image, "what is there is not brought in again"
        assert sum((archives.asked - asked).values()) <= 2, "at most its manifest and its configuration"
        store.release("alive")
        await store.prune(0)
        assert contents(directory)["layers"] == 0, "and all of it can go when its user has"


@pytest.mark.parametrize("way", WAYS)
async def test_a_layer_that_nobody_uses_is_pulled_again(tmp_path: Path, archives: Watched, way: str) -> None:
    directory = tmp_path / "store"
    image = await filled(directory, archives)
    damage(directory, "layers/*/layer.json", way)
    async with reopened(directory, archives) as store:
        assert [one.reference for one in store.images()] == ["used:latest"]
        asked = archives.asked.copy()
        idle = await store.pull("idle")
        assert len(idle.layers) == 1
        assert sum((archives.asked - asked).values()) == 3, "manifest, configuration and layer"
        assert len(files(image)) == 2


async def test_a_layer_of_an_earlier_boot_stays_when_its_image_is_lost(tmp_path: Path, archives: Watched) -> None:
    directory = tmp_path / "store"
    image = await filled(directory, archives)
    for path in directory.glob("layers/*/layer.json"):
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "boot_id": "an earlier boot"}))
    damage(directory, "images/*.json", "garbage")
    async with reopened(directory, archives) as store:
        assert store.images() == ()
        assert len(files(image)) == 2
        assert contents(directory)["layers"] == 2, "the idle one's may not have reached the disk"


async def test_a_half_made_layer_is_none_although_a_use_names_it(tmp_path: Path, archives: Watched) -> None:
    directory = tmp_path / "store"
    image = await filled(directory, archives)
    lost = image.layers[0].parent
    await asyncio.to_thread(lambda: image.layers[0].rename(tmp_path / "away"))
    (lost / "layer.json").write_bytes(b"")
    async with reopened(directory, archives) as store:
        assert [one.reference for one in store.images()] == ["idle:latest"]
        assert len((await store.pull("used")).layers) == 2
