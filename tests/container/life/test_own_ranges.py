"""Containers in user namespaces have numbers of their own: what one's root gets out with is nothing in another."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import Containerizer
from mesos_gpu.container.life.release import Releaser
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import BadInput, ContainerError, MesosGpuError
from tests.support.container.box import Box
from tests.support.container.images import Images, ask
from tests.support.folders import open_folder
from tests.support.images.build import Layer, busybox_image, folder, tar_of

pytestmark = pytest.mark.root

FIRST, EACH = 1_879_048_192, 65536
POOL = IdPool(IdRange(FIRST, 3 * EACH))
"""What files bear, and two containers."""
SHARED = IdPool(IdRange(FIRST, EACH))
FOREVER = "umask 077; echo word > secret; echo ready; exec sleep 1000"


@pytest.fixture
def place() -> Iterator[Path]:
    with open_folder() as place:
        yield place


@pytest.fixture
async def box(place: Path) -> AsyncIterator[Box]:
    box = Box(place / "box")
    yield box
    await box.close()
    assert box.leftovers() == []


async def start(containerizer: Containerizer, box: Box, name: str, shell: str = FOREVER) -> int:
    pid = await containerizer.launch(box.config(name, shell=shell))
    await asyncio.to_thread(box.until_said, name, "ready")
    return pid


def numbers(pid: int) -> tuple[int, ...]:
    return tuple(map(int, Path(f"/proc/{pid}/uid_map").read_text().split()))


PROBE = """
kill -0 {pid} 2>/dev/null && echo signals
cat /proc/{pid}/environ > /dev/null 2>&1 && echo traces
cat {file} > /dev/null 2>&1 && echo reads
echo x 2>/dev/null >> {file} && echo writes
true
"""


def reached(of: int, other: int, file: Path) -> list[str]:
    """Return what root of a container does to another's process and file, once out of all but its user namespace."""
    shell = PROBE.format(pid=other, file=file)
    command = ["nsenter", f"--user=/proc/{of}/ns/user", "-S", "0", "-G", "0", "sh", "-c", shell]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout.split()


@pytest.mark.parametrize("pool", [POOL, SHARED], ids=["own", "shared"])
async def test_root_of_a_container_that_got_out_is_nobody_to_another(box: Box, pool: IdPool) -> None:
    containerizer = await box.open(users=pool)
    one, other = [await start(containerizer, box, name) for name in ("one", "other")]
    # A file that bears the other's running number, as one in its image or its /dev/shm does.
    outside = box.folder / "secret"
    outside.write_text("word")
    outside.chmod(0o600)
    os.chown(outside, numbers(other)[1], numbers(other)[1])
    found = reached(one, other, outside)
    assert reached(other, other, outside) == ["signals", "traces", "reads", "writes"], "the probe can"
    if pool.shared:
        assert numbers(one) == numbers(other) == (0, FIRST, EACH)
        assert found == ["signals", "reads", "writes"], "as with Docker"
    else:
        assert (numbers(one), numbers(other)) == ((0, FIRST + EACH, EACH), (0, FIRST + 2 * EACH, EACH))
        assert found == []
        # Nor to what either has on disk, which bears numbers that no container has.
        for name in ("one", "other"):
            file = box.folder / "sandboxes" / name / "secret"
            assert file.stat().st_uid == FIRST
            assert reached(one, other, file) == []
    for name in ("one", "other"):
        await containerizer.destroy(name)


async def test_in_images_with_volumes_that_are_shared(box: Box, place: Path) -> None:
    """Containers of other numbers see the same owners in an image and in a volume, which is the next one's, too."""
    images = Images(place / "images", one=busybox_image(Layer(tar_of(folder("srv", uid=1000, mode=0o700)))))
    containerizer = await box.open(users=POOL, images=images.store)
    (place / "kept").mkdir()
    volume = Volume(str(place / "kept"), "kept", owned=True)
    for turn, name in enumerate(("one", "two")):
        shell = (
            f"stat -c %u /srv kept | xargs; cat kept/* 2>/dev/null; echo of-{name} > kept/{name}; chmod 600 kept/{name}"
        )
        config = box.config(name, image=ask(shell=f"{shell}; chown 7 kept/{name}; echo ready; exec sleep 1000"))
        shared = replace(volume, in_use=turn > 0)
        await containerizer.launch(replace(config, environment={"PATH": "/bin"}, volumes=(shared,)))
        await asyncio.to_thread(box.until_said, name, "ready")
    assert box.said("one").splitlines() == ["1000 0", "ready"]
    assert box.said("two").splitlines() == ["1000 0", "of-one", "ready"]
    assert {path.name: path.stat().st_uid for path in (place / "kept").iterdir()} == {
        "one": FIRST + 7,
        "two": FIRST + 7,
    }
    for name in ("one", "two"):
        await containerizer.destroy(name)
    await images.store.close()


async def test_numbers_are_a_containers_until_it_is_gone_and_then_the_next_ones(box: Box) -> None:
    containerizer = await box.open(users=POOL)
    pids = {name: await start(containerizer, box, name) for name in ("a", "b")}
    with pytest.raises(ContainerError, match="2 of 65536"):
        await containerizer.launch(box.config("c", shell="true"))
    child = replace(box.config("a.child", shell=FOREVER), mem_bytes=0)
    inner = await containerizer.launch(child)
    assert numbers(inner) == numbers(pids["a"]) == (0, FIRST + EACH, EACH)
    # An agent that was killed; the next knows of nothing but what is on disk.
    await containerizer.close()
    later = await box.open({"a", "b"}, users=POOL)
    with pytest.raises(ContainerError, match="of 65536"):
        await later.launch(box.config("c", shell="true"))
    await later.destroy("a.child")
    with pytest.raises(ContainerError, match="of 65536"):
        await later.launch(box.config("c", shell="true"))
    await later.destroy("a")
    assert numbers(await start(later, box, "c")) == (0, FIRST + EACH, EACH)
    # Another agent that knows nothing of them takes them away, and has all numbers again.
    await later.close()
    last = await box.open((), users=POOL)
    assert [numbers(await start(last, box, name))[1] for name in ("d", "e")] == [FIRST + EACH, FIRST + 2 * EACH]
    for name in ("d", "e"):
        await last.destroy(name)


async def test_no_range_is_lost_in_fifty_starts_whatever_becomes_of_them(box: Box) -> None:
    containerizer = await box.open(users=POOL)
    held = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(17):
        well, ill, gone = (f"{kind}{number}" for kind in ("well", "ill", "gone"))
        await containerizer.launch(box.config(well, shell="exit 0"))
        await containerizer.wait(well)
        with pytest.raises(MesosGpuError):
            await containerizer.launch(box.config(ill, shell="true", volumes=(Volume("/none", "kept"),)))
        starting = asyncio.ensure_future(containerizer.launch(box.config(gone, shell="sleep 1000")))
        await asyncio.sleep(0)
        await containerizer.destroy(gone)
        await asyncio.wait([starting])
        assert isinstance(starting.exception(), ContainerError)
    assert len(list(Path("/proc/self/fd").iterdir())) <= held + 8, "namespaces of maps are kept, and few"
    both = [numbers(await start(containerizer, box, name)) for name in ("a", "b")]
    assert both == [(0, FIRST + EACH, EACH), (0, FIRST + 2 * EACH, EACH)]
    for name in ("a", "b"):
        await containerizer.destroy(name)


def stuck(box: Box) -> ContainerConfig:
    """Return one that cannot be launched."""
    return box.config("stuck", shell="true", volumes=(Volume("/none", "kept"),))


async def test_numbers_of_what_cannot_be_taken_away_yet_are_given_to_nobody(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    containerizer = await box.open(users=POOL)
    really, tried = Releaser.release_strays, asyncio.Event()

    async def fails(self: Releaser, container_ids: object) -> None:
        tried.set()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Releaser, "release_strays", fails)
    launching = asyncio.ensure_future(containerizer.launch(stuck(box)))
    await asyncio.wait_for(tried.wait(), 30)
    assert numbers(await start(containerizer, box, "next")) == (0, FIRST + 2 * EACH, EACH)
    await containerizer.destroy("next")
    assert not launching.done()
    monkeypatch.setattr(Releaser, "release_strays", really)
    with pytest.raises(BadInput, match="/none"):
        await launching
    assert numbers(await start(containerizer, box, "again")) == (0, FIRST + EACH, EACH)
    await containerizer.destroy("again")


async def test_numbers_of_what_could_not_be_taken_away_are_given_to_nobody(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    containerizer = await box.open(users=POOL)
    really = Releaser.release_strays

    async def fails(self: Releaser, container_ids: object) -> None:
        raise ValueError("what nobody has thought of")

    monkeypatch.setattr(Releaser, "release_strays", fails)
    with pytest.raises(ValueError, match="nobody has thought of"):
        await containerizer.launch(stuck(box))
    monkeypatch.setattr(Releaser, "release_strays", really)
    assert numbers(await start(containerizer, box, "next")) == (0, FIRST + 2 * EACH, EACH)
    await containerizer.destroy("next")
    # The next agent takes it away whole, or does not start.
    await containerizer.close()
    later = await box.open((), users=POOL)
    assert numbers(await start(later, box, "again")) == (0, FIRST + EACH, EACH)
    await later.destroy("again")
