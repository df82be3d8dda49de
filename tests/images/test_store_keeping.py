"""What containers use stays in the store, and what nobody uses goes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mesos_gpu.errors import ImageError
from mesos_gpu.images.store import ImageStore
from tests.support.images.build import BuiltImage
from tests.support.images.store import EMPTY, ONE, THREE, TWO, Watched, contents

pytestmark = pytest.mark.root  # layers are unpacked with their owners


async def test_what_containers_use_stays(store: ImageStore, archives: Watched) -> None:
    archives.add("one", BuiltImage((ONE, TWO)))
    archives.add("two", BuiltImage((ONE, THREE)))
    one = await store.pull("one", by="a")
    await store.pull("two")
    store.use(one, "b")
    assert [(image.reference, image.used_by) for image in store.images()] == [
        ("one:latest", ("a", "b")),
        ("two:latest", ()),
    ]
    assert (await store.prune(0)).images == ("two:latest",)
    store.release("a")
    store.release("unknown")
    assert (await store.prune(0, 0)).images == ()
    assert all(path.exists() for path in one.layers)
    store.release("b")
    store.release("b")
    pruned = await store.prune(0)
    assert pruned.images == ("one:latest",)
    assert pruned.bytes == len(b"one" * 1000 + b"two" * 1000)
    assert store.images() == ()
    assert not any(path.exists() for path in one.layers)
    with pytest.raises(ImageError, match="was removed from the store"):
        store.use(one, "c")


async def test_the_layers_of_a_moved_name_stay_while_they_are_used(store: ImageStore, archives: Watched) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))
    old = await store.pull("cuda", by="container")
    archives.add("cuda", BuiltImage((THREE,)))
    await store.pull("cuda", cached=False)
    assert (await store.prune(0)).images == ("cuda:latest",)
    assert all(path.exists() for path in old.layers)
    store.release("container")
    await store.prune(0)
    assert not any(path.exists() for path in old.layers)


async def test_old_images_go_by_age(store: ImageStore, archives: Watched, tmp_path: Path) -> None:
    archives.add("cuda", BuiltImage((ONE,)))
    await store.pull("cuda")
    assert (await store.prune(max_age_s=60)).images == ()
    assert (await store.prune(max_age_s=60, now_s=time.time() + 61)).images == ("cuda:latest",)
    assert contents(tmp_path / "store") == EMPTY


async def test_a_prune_during_a_pull_takes_nothing_of_it(store: ImageStore, archives: Watched) -> None:
    archives.add("one", BuiltImage((ONE,)))
    archives.add("two", BuiltImage((ONE, TWO)))
    await store.pull("one")
    archives.gate.clear()
    pull = asyncio.create_task(store.pull("two"))
    await archives.waiting.wait()  # for the config
    archives.waiting.clear()
    archives.gate.set()
    archives.gate.clear()
    await archives.waiting.wait()  # for a layer: the other counts as there
    assert (await store.prune(0)).bytes == 0
    archives.gate.set()
    assert all(path.exists() for path in (await pull).layers)


async def test_fifty_containers_of_one_image_leave_the_store_as_it_was(
    store: ImageStore, archives: Watched, tmp_path: Path
) -> None:
    archives.add("cuda", BuiltImage((ONE, TWO)))

    async def run(name: str) -> None:
        await store.pull("cuda", by=name)
        await asyncio.sleep(0)
        store.release(name)

    await asyncio.gather(*(run(f"container-{number}") for number in range(50)))
    assert contents(tmp_path / "store") == {**EMPTY, "images": 1, "layers": 2}
    assert archives.asked["cuda:latest"] == 1


async def run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()
