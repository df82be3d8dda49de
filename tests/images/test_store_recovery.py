"""A store that is opened again: after a run, a kill, a fall of the machine, by two processes, by another user."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.errors import Conflict, ImageError
from mesos_gpu.images.folders import Folders
from mesos_gpu.images.progress import Progress
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import Image, ImageStore
from tests.support.golden import Golden
from tests.support.images.build import BuiltImage, Layer, file, tar_of
from tests.support.images.registry import RealRegistry
from tests.support.images.store import EMPTY, ONE, ROOMY, THREE, TWO, Watched, contents, opened

pytestmark = pytest.mark.root  # layers are unpacked with their owners


async def test_an_earlier_runs_images_and_uses_are_there_again(tmp_path: Path, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))
    async with opened(tmp_path / "store", archives) as store:
        image = await store.pull("cuda", by="alive")
        store.use(image, "dead")
        before = store.images()
    store = ImageStore(tmp_path / "store", archives, ROOMY)
    await store.recover(["alive", "without an image"])
    try:
        assert set(store.uses()) == {"alive"}
        assert store.images()[0].digest == before[0].digest
        assert await store.pull("cuda") == image
        assert (await store.prune(0)).images == ()
    finally:
        await store.close()


async def test_what_a_kill_left_unfinished_is_cleaned(tmp_path: Path, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE,)))
    async with opened(tmp_path / "store", archives) as store:
        await store.pull("cuda")
    directory = tmp_path / "store"
    (directory / "unpacking" / "7" / "root" / "deep").mkdir(parents=True)
    (directory / "trash" / "7" / "root").mkdir(parents=True)
    (directory / "layers" / "sha256-half").mkdir()
    (directory / "images" / "x.new").write_text("{")
    (directory / "images" / "x.json").write_text("{")
    fresh, stale = directory / "downloads" / "fresh", directory / "downloads" / "stale"
    fresh.write_bytes(b"1")
    stale.write_bytes(b"1")
    os.utime(stale, (1, 1))
    async with opened(directory, archives) as store:
        assert contents(directory) == {**EMPTY, "images": 1, "layers": 1, "downloads": 1}
        assert fresh.exists()
        assert len(store.images()) == 1


async def test_an_image_that_lost_a_layer_is_pulled_again(tmp_path: Path, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))
    async with opened(tmp_path / "store", archives) as store:
        image = await store.pull("cuda")
    shutil.rmtree(image.layers[0].parent)
    async with opened(tmp_path / "store", archives) as store:
        assert store.images() == ()
        assert await store.pull("cuda") == image


async def settled(directory: Path) -> None:
    """Wait until images are known to be on the disk."""
    while any(json.loads(path.read_bytes())["boot_id"] for path in (directory / "images").glob("*.json")):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_after_the_machine_went_down_only_what_reached_the_disk_counts(
    tmp_path: Path, archives: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "store"
    archives.add("sure", BuiltImage((ONE, TWO)))
    archives.add("unsure", BuiltImage((ONE, THREE)))
    store = ImageStore(directory, archives, ROOMY)
    await store.recover()
    await store.pull("sure")
    await settled(directory)
    over = threading.Event()
    monkeypatch.setattr(Folders, "sync", lambda self: over.wait())
    try:
        await store.pull("unsure")
        await store.close()
    finally:
        over.set()
    for path in [*directory.glob("images/*.json"), *directory.glob("layers/*/layer.json")]:
        record = json.loads(path.read_bytes())
        path.write_text(json.dumps({**record, "boot_id": record["boot_id"] and "an earlier boot"}))
    async with opened(directory, archives) as store:
        assert [image.reference for image in store.images()] == ["sure:latest"]
        assert contents(directory) == {**EMPTY, "images": 1, "layers": 2}


async def test_two_processes_cannot_have_one_store(
    store: ImageStore, archives: Watched, tmp_path: Path, golden: Golden
) -> None:
    with pytest.raises(Conflict) as refused:
        await ImageStore(tmp_path / "store", archives).recover()
    assert str(refused.value) == golden


async def test_a_folder_of_another_user_is_no_store(archives: Watched, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 65534, 65534)
    with pytest.raises(ImageError) as refused:
        await ImageStore(tmp_path / "store", archives).recover()
    assert str(refused.value) == golden


def test_other_users_cannot_reach_set_user_id_files(tmp_path: Path, archives: Watched) -> None:
    async def pull() -> None:
        async with opened(tmp_path / "store", archives) as store:
            await store.pull("cuda")

    archives.add("cuda", BuiltImage((ONE,)))
    asyncio.run(pull())
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


KILLED = """
    import asyncio, sys
    from pathlib import Path
    from mesos_gpu.images.sources import open_source
    from mesos_gpu.images.store import ImageStore

    async def main():
        store = ImageStore(Path(sys.argv[1]), open_source(sys.argv[2]))
        await store.recover()
        image = await store.pull("used", by="container")
        def tell(progress):
            if progress.phase == sys.argv[3] and progress.bytes_done > 0:
                print("now", flush=True)
        await store.pull("big", tell)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


@pytest.mark.parametrize("phase", ["downloading", "extracting", "done"])
async def test_after_a_kill_uses_stay_and_the_pull_goes_on(
    shared_registry: RealRegistry, tmp_path: Path, phase: str
) -> None:
    shared_registry.push("used", BuiltImage((ONE, TWO)))
    shared_registry.push("big", BuiltImage((ONE, Layer(tar_of(file("big", os.urandom(48 << 20))), "plain"))))
    code = textwrap.dedent(KILLED).replace(
        "progress.bytes_done > 0", "progress.bytes_done > 0 or progress.phase == 'done'"
    )
    arguments = [str(tmp_path / "store"), shared_registry.url, phase]
    path = os.pathsep.join(sys.path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"now\n"
    process.kill()
    await process.wait()
    store = ImageStore(tmp_path / "store", open_source(shared_registry.url))
    await store.recover(["container"])
    try:
        assert contents(tmp_path / "store")["unpacking"] == 0
        (used,) = (image for image in store.images() if image.reference == "used:latest")
        assert used.used_by == ("container",)
        assert (await store.prune(0)).bytes in (0, 48 << 20)
        told: list[Progress] = []
        assert len((await store.pull("big", told.append)).layers) == 2
    finally:
        await store.close()


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
