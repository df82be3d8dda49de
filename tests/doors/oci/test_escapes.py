"""The published escapes from NVIDIA's container tools, tried here as images and as races: refused, or harmless."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.engine import Engine

pytestmark = pytest.mark.root

SPELL = """
#include <fcntl.h>
__attribute__((constructor)) static void cast(void) { open("%s", O_CREAT | O_WRONLY, 0600); }
"""
RACE = """
import os, sys, threading
from pathlib import Path
from mesos_gpu.doors.oci.injection import Shown, inject
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import DeviceNode

pid, root, volume, victim = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
nodes = [DeviceNode("/dev/nvidia0", 195, 0), DeviceNode("/dev/nvidia-caps/nvidia-cap1", 240, 1)]
swapped, stop = root / "usr/local", False

def swap():
    while not stop:
        for source in ("folder", "link"):
            os.rename(root / "usr" / source, root / "usr/at")
            os.rename(swapped, root / "usr" / ("link" if source == "folder" else "folder"))
            os.rename(root / "usr/at", swapped)

os.symlink(victim, root / "usr/link")
os.rename(root / "usr/link", root / "usr/parked")
(root / "usr/folder").mkdir()
os.rename(swapped, root / "usr/first")
os.rename(root / "usr/parked", swapped)
thread = threading.Thread(target=swap)
thread.start()
done = failed = 0
for _ in range(100):
    child = os.fork()
    if not child:
        try:
            inject(pid, root, nodes, [Shown(volume, "/usr/local/nvidia")], ["utility"])
        except ContainerError:
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
    done += 1
stop = True
thread.join()
print(done, failed)
"""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host that no container may reach."""
    folder = tmp_path / "victim"
    (folder / "local").mkdir(parents=True)
    (folder / "file").write_text("the host's")
    before = sorted(folder.rglob("*"))
    yield folder
    assert sorted(folder.rglob("*")) == before, "something was made on the host"
    assert (folder / "file").read_text() == "the host's"
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry, b""


def file(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    return entry, data


def spell(folder: Path, target: Path) -> bytes:
    """Return a library that makes a file when it is loaded."""
    source, library = folder / "spell.c", folder / "evil.so"
    source.write_text(SPELL % target)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library.read_bytes()


@pytest.mark.parametrize("replaced", ["usr/local", "usr/bin", "usr/lib", "usr"])
@pytest.mark.parametrize("way", ["absolute", "upwards"])
async def test_links_of_an_image_lead_nowhere_but_into_it(
    asking: Engine, bank: Bank, victim: Path, replaced: str, way: str
) -> None:
    """CVE-2024-0132 and CVE-2025-23359: what an image's links name is the image's, never the host's."""
    target = str(victim) if way == "absolute" else "../" * 30 + str(victim).lstrip("/")
    await asyncio.to_thread(asking.make_image, "doors-evil:latest", [link(replaced, target)])
    done = await asyncio.to_thread(
        asking.run, "--gpus=1", "--", "ls", str(victim), image="doors-evil:latest", check=False
    )
    # A dangling link is refused; one whose target the image has is followed inside of it.
    assert "the host's" not in done.stdout
    assert "file" not in done.stdout.split()


async def test_no_library_that_an_image_names_is_loaded_outside_of_it(
    asking: Engine, bank: Bank, victim: Path, tmp_path: Path
) -> None:
    """CVE-2025-23266: the hook ran with LD_PRELOAD of the image, in a folder of the image."""
    library = await asyncio.to_thread(spell, tmp_path, victim / "spell")
    evil = [
        file("evil.so", library),
        file("sitecustomize.py", f"open({str(victim / 'py')!r}, 'w')".encode()),
    ]
    variables = (
        "LD_PRELOAD=/proc/self/cwd/evil.so",
        "LD_LIBRARY_PATH=/",
        "PYTHONPATH=/",
        "PYTHONSTARTUP=/sitecustomize.py",
    )
    await asyncio.to_thread(asking.make_image, "doors-evil:latest", evil, *variables, "NVIDIA_VISIBLE_DEVICES=all")
    for way in ("--gpus=1", "--runtime=nvidia"):
        done = await asyncio.to_thread(asking.run, way, "--", "ls", "/dev", image="doors-evil:latest")
        assert "nvidia" in done.stdout


async def test_no_cache_or_link_of_an_image_is_written_to(asking: Engine, bank: Bank, victim: Path) -> None:
    """CVE-2025-23267: links in the place of the loader's cache, and of files that are put over the image's."""
    links = [link(name, str(victim / "file")) for name in ("etc/ld.so.cache", "usr/bin/nvidia-smi")]
    await asyncio.to_thread(asking.make_image, "doors-evil:latest", links)
    done = await asyncio.to_thread(asking.run, "--gpus=1", "--", "ls", "-l", "/usr/bin", image="doors-evil:latest")
    assert f"nvidia-smi -> {victim / 'file'}" in done.stdout, "it is the image's still"


def test_a_folder_that_becomes_a_link_at_any_moment_leads_nowhere(tmp_path: Path, victim: Path) -> None:
    """CVE-2024-0132 and CVE-2025-23359 as a race: another container swaps a folder and a link in a shared volume."""
    root, volume = tmp_path / "root", tmp_path / "volume"
    for folder in (root / "dev", root / "usr/local", root / "usr/bin", volume / "bin"):
        folder.mkdir(parents=True)
    (volume / "bin/nvidia-smi").write_text("#!/bin/sh\n")
    script = f"mount -t tmpfs none {root}/dev && echo ready && exec sleep 600"
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as container:
        assert container.stdout is not None
        assert container.stdout.readline() == "ready\n"
        words = [sys.executable, "-c", RACE, str(container.pid), str(root), str(volume), str(victim)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        container.kill()
    assert done.returncode == 0, done.stderr
    tried, failed = map(int, done.stdout.split())
    assert tried == 100
    assert 0 <= failed < tried, "some came through, into the container"
