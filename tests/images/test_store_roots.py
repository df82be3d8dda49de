"""The layers of an image as the root of a container, compared with what umoci unpacks."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from mesos_gpu.images.sources import open_source
from mesos_gpu.images.store import ImageStore
from tests.support.images.build import BuiltImage, Layer, base_layer, busybox_image, file, folder, link, sha256, tar_of
from tests.support.images.registry import RealRegistry
from tests.support.images.store import ONE, TWO, Watched, opened

pytestmark = pytest.mark.root  # layers are unpacked with their owners


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
