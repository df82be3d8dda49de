"""Pulls into the store: from a registry or an archive, once, shared, given up, begun again."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import stat
import time
from pathlib import Path

import pytest
import requests

from mesos_gpu.errors import BadInput, ImageError
from mesos_gpu.images.manifest import Platform
from mesos_gpu.images.progress import Progress
from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore, StoreLimits
from tests.support.golden import Golden
from tests.support.images.build import (
    BuiltImage,
    Layer,
    base_layer,
    busybox_image,
    cuda_image,
    file,
    folder,
    index_of,
    link,
    push_manifest,
    sha256,
    tar_of,
)
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


async def run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def overlay_options(layers: tuple[Path, ...], place: Path) -> str:
    for name in ("upper", "work", "merged"):
        (place / name).mkdir()
    lower = ":".join(str(path) for path in reversed(layers))
    return f"lowerdir={lower},upperdir={place}/upper,workdir={place}/work"


async def in_overlay(layers: tuple[Path, ...], place: Path, command: str) -> str:
    """Run a shell command in a chroot to the layers, mounted in a mount namespace that ends with it."""
    options = overlay_options(layers, place)
    script = f'mount -t overlay overlay -o "{options}" {place}/merged && chroot {place}/merged /bin/sh -c "$0"'
    return await run("unshare", "--mount", "sh", "-c", script, command)


async def test_the_layers_make_a_root_for_overlayfs(tmp_path: Path, archives: Watched) -> None:
    second = Layer(tar_of(file("bin/.wh.ls"), folder("etc"), file("etc/motd", b"hello"), file("usr/.wh..wh..opq")))
    third = Layer(tar_of(file("etc/.wh.group"), file("motd", b"again")))
    image = busybox_image(second, third)
    archives.add("cuda", image)
    async with opened(tmp_path / "store", archives) as store:
        pulled = await store.pull("cuda")
        said = await in_overlay(pulled.layers, tmp_path, "cat /etc/motd /motd; cd /; echo; echo bin/ls* etc/* usr/*")
    assert said.splitlines() == ["helloagain", "bin/ls* etc/motd etc/passwd usr/*"]


async def test_equal_layers_are_named_once_and_an_opaque_root_hides_all(store: ImageStore, archives: Watched) -> None:
    base = base_layer()
    archives.add("twice", BuiltImage((ONE, TWO, ONE)))
    twice = await store.pull("twice")
    assert [path.parent.name for path in twice.layers] == [sha256(x.tar).replace(":", "-") for x in (TWO, ONE)]
    hiding = Layer(tar_of(file(".wh..wh..opq"), file("only")))
    archives.add("hidden", BuiltImage((base, hiding, ONE)))
    hidden = await store.pull("hidden")
    assert [path.parent.name for path in hidden.layers] == [sha256(x.tar).replace(":", "-") for x in (hiding, ONE)]


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        there = path.lstat()
        content: object = None
        if path.is_symlink():
            content = path.readlink()
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(root))] = (
            stat.S_IFMT(there.st_mode),
            stat.S_IMODE(there.st_mode),
            there.st_uid,
            there.st_gid,
            int(there.st_mtime),
            content,
        )
    return found


async def test_umoci_unpacks_the_same_tree(shared_registry: RealRegistry, tmp_path: Path) -> None:
    image = BuiltImage(
        (
            base_layer(),
            Layer(
                tar_of(
                    folder("srv", mode=0o2775, uid=3, gid=4, mtime=99),
                    file("srv/su", b"x", mode=0o4755, mtime=1234),
                    link("srv/l", "/etc"),
                    folder("bin"),
                    file("bin/.wh.cat"),
                )
            ),
            Layer(tar_of(file("etc/.wh..wh..opq"), folder("etc", mtime=7), file("etc/new", b"n", mtime=8))),
        )
    )
    shared_registry.push("umoci/cuda", image)
    layout, bundle = tmp_path / "layout", tmp_path / "bundle"
    source = f"docker://{shared_registry.host}/umoci/cuda:latest"
    for command in (
        ["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", source, f"oci:{layout}:cuda"],
        ["umoci", "unpack", "--image", f"{layout}:cuda", str(bundle)],
    ):
        await run(*command)
    async with opened(tmp_path / "store", open_source(shared_registry.url)) as store:
        pulled = await store.pull("umoci/cuda")
        place = tmp_path / "mount"
        place.mkdir()
        options = overlay_options(pulled.layers, place)
        await run("mount", "-t", "overlay", "overlay", "-o", options, str(place / "merged"))
        try:
            ours = tree(place / "merged")
        finally:
            await run("umount", str(place / "merged"))
    assert ours == tree(bundle / "rootfs")


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
