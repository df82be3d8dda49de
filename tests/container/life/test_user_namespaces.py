"""Containers in user namespaces (`--userns_remap`): real ones, under both runtimes, with GPUs that open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.base.linux.libc import call
from mesos_gpu.base.linux.mounts import read_mounts
from mesos_gpu.container.host.mounts import unmount
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.config import Secret, SessionConfig, Volume
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import BadInput, ContainerError, Unavailable
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from tests.support.container.box import Box
from tests.support.container.cni_networks import PLUGINS, CniNetwork, cni_network
from tests.support.container.images import Images, ask
from tests.support.folders import open_folder
from tests.support.images.build import Layer, busybox_image, file, folder, tar_of

pytestmark = pytest.mark.root

RUNTIMES = pytest.mark.parametrize("runtime", ["crun", "runc"])
POOL = IdPool(IdRange(1_879_048_192, 4 * 65536))
"""Three containers, each with numbers of its own."""
DISK, IDS = POOL.disk, IdRange(1_879_048_192 + 65536, 65536)
"""What files bear, and what the first container has."""
SHARED = IdPool(IdRange(1_600_000_000, 65536))
FOREVER = "echo ready; exec sleep 1000"
TMPFS_MAPS = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 3)
"""Whether owners in what is mounted as tmpfs are those of the container; else all there is somebody's, and closed."""


@pytest.fixture
def place() -> Iterator[Path]:
    with open_folder() as place:
        yield place


@pytest.fixture
async def box(place: Path) -> AsyncIterator[Box]:
    box = Box(place / "box")
    yield box
    mounted = [mount.path for mount in read_mounts(Path("/proc/self/mountinfo").read_text("latin-1"))]
    await box.close()
    assert box.leftovers() == []
    assert [path for path in mounted if path.startswith(str(place))] == [], "the host sees what containers have"


LOOK = """
cat /proc/self/uid_map | xargs; id -u
touch mine; echo more >> /dev/stdout; echo out > /dev/null
touch /dev/shm/x && echo shm; touch /etc/passwd 2>/dev/null && echo etc
for at in "unshare -m true" "mount -t tmpfs none /mnt" "mount -o remount,rw /sys"; do
    $at 2>/dev/null && echo "$at"
done
mknod /tmp/n$$ c 1 3 2>/dev/null && echo mknod
for at in /proc/sys/kernel/hostname /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    { cat $at > at; cat at > $at; } 2>/dev/null && echo $at
done
true
"""


@pytest.mark.parametrize(
    ("runtime", "user", "image"),
    [
        *(("crun", "root", False), ("crun", "nobody", False), ("crun", "root", True), ("crun", "nobody", True)),
        *(("runc", "root", True), ("runc", "nobody", False)),
    ],
)
async def test_who_a_task_is_in_its_container_is_nobody_on_the_host(
    box: Box, place: Path, runtime: str, user: str, image: bool
) -> None:
    images = Images(place / "images", one=busybox_image(Layer(tar_of(folder("tmp", mode=0o1777)))))
    containerizer = await box.open(runtimes=(runtime,), users=POOL, images=images.store)
    uid = 0 if user == "root" else 65534
    shell = LOOK + "stat -c %u mine stdout /proc/1 > owners; echo ready; exec sleep 1000"
    asked = {"image": ask(shell=shell), "environment": {}} if image else {"shell": shell}
    config = box.config("c", user=user, **asked)  # type: ignore[arg-type]
    os.chown(config.sandbox, uid, uid)
    pid = await containerizer.launch(config)
    await asyncio.to_thread(box.until_said, "c", "ready")
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"\nUid:\t{IDS.first + uid}\t" in status
    assert Path(f"/proc/{pid}/ns/user").readlink() != Path("/proc/self/ns/user").readlink()
    said = box.said("c").splitlines()
    maker = ["etc"] if image and user == "root" else []  # a file of the container's own
    assert said == [f"0 {IDS.first} {IDS.count}", str(uid), "more", "shm", *maker, "ready"]
    sandbox = box.folder / "sandboxes" / "c"
    assert (sandbox / "owners").read_text().split() == [str(uid)] * 3
    # On disk a task's user is himself. The host's root he is not: a program of his could be set-user-ID there.
    owner = uid or DISK.first
    assert {path.stat().st_uid for path in (sandbox, sandbox / "mine", sandbox / "stdout")} == {owner}
    await containerizer.destroy("c")
    await images.store.close()


@RUNTIMES
async def test_gpus_open_in_it_and_no_others_do(box: Box, runtime: str) -> None:
    """ENXIO: the cgroup let it through, and there is no driver behind it. EPERM: the cgroup refused."""
    driver = SimulatedDriver(4)
    isolator = NvidiaGpuIsolator(driver.gpus(), driver, None, Checkpoints(box.folder / "gpus"))
    containerizer = await box.open(isolator=isolator, runtimes=(runtime,), users=POOL)
    shell = (
        "for i in 0 1 2 3; do { : < /dev/nvidia$i; } 2>&1 | sed 's/.*: //;s/^/'$i' /'; done; stat -c %a /dev/nvidia*"
    )
    own = (*isolator.prepare("look", 1).nodes,)  # what the machine gives first
    isolator.cleanup("look")
    assert own
    await containerizer.launch(box.config("c", shell=f"{shell}; {FOREVER}", gpus=1))
    await asyncio.to_thread(box.until_said, "c", "ready")
    said = box.said("c").splitlines()
    assert sum("No such device" in line for line in said) == 1
    assert sum("No such file" in line for line in said) == 3
    assert "666" in said
    output = box.folder / "sandboxes" / "c" / "check"
    await containerizer.update("c", 3)  # nodes that come later open, too
    await containerizer.execute("c", Execution(("/bin/sh", "-c", shell), output, {}))
    assert output.read_text().count("No such device") == 3
    await containerizer.update("c", 1)
    output.unlink()
    await containerizer.execute("c", Execution(("/bin/sh", "-c", shell), output, {}))
    assert output.read_text().count("No such device") == 1
    await containerizer.destroy("c")


@RUNTIMES
async def test_of_the_hosts_files_a_task_has_its_users_own(box: Box, place: Path, runtime: str) -> None:
    """Root has none of them. Persistent volumes and secrets are the task's as ever."""
    containerizer = await box.open(runtimes=(runtime,), users=POOL)
    data, kept = place / "data", place / "kept"
    for path in (data, kept):
        path.mkdir()
    os.chown(data, 65534, 65534)
    for name, owner in (("roots", 0), ("nobodys", 65534), ("others", 4711)):
        (data / name).write_text(name)
        os.chown(data / name, owner, owner)
        (data / name).chmod(0o600)
    volumes = (Volume(str(data), "/mnt"), Volume(str(kept), "kept", owned=True))
    shell = "cat /mnt/* 2>/dev/null; touch /mnt/by-$(id -u) 2>/dev/null; touch kept/by-$(id -u); cat secret"
    shell += "; stat -c %u kept"
    for user, reads in (("root", ""), ("nobody", "nobodys")):
        config = box.config(user, user=user, shell=shell, volumes=volumes)
        await containerizer.launch(replace(config, secrets=(Secret("secret", b"word\n"),)))
        await containerizer.wait(user)
        uid = 0 if user == "root" else 65534
        assert box.said(user) == f"{reads}word\n{uid}\n", box.said(user, "stderr")
        await containerizer.destroy(user)
    assert {path.name: path.stat().st_uid for path in data.glob("by-*")} == {"by-65534": 65534}
    assert {path.name: path.stat().st_uid for path in kept.iterdir()} == {"by-0": DISK.first, "by-65534": 65534}


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_no_file_on_disk_becomes_another_users_of_the_host(box: Box, place: Path, user: str) -> None:
    """A container's root may give its files to anybody, set-user-ID bits and all; none of them is on the host."""
    suid = Layer(tar_of(file("bin/become", b"#!/bin/sh\n"), folder("tmp", mode=0o1777)))
    images = Images(place / "images", one=busybox_image(suid))
    containerizer = await box.open(users=POOL, images=images.store)
    shell = "cd $MESOS; for u in 0 1 1000 65533; do touch f$u; chown $u:$u f$u; chmod 6755 f$u; done; ls -ln"
    volumes = (Volume(str(place / "kept"), "kept", owned=True),)
    (place / "kept").mkdir()
    for folder_inside in (".", "kept"):
        name = f"{user}-{folder_inside.strip('.')}x"
        config = box.config(name, user=user, image=ask(shell=shell), volumes=volumes)
        await containerizer.launch(replace(config, environment={"MESOS": folder_inside, "PATH": "/bin"}))
        await containerizer.wait(name)
        await containerizer.destroy(name)
    written = [path for at in (place / "kept", box.folder / "sandboxes") for path in at.rglob("f*")]
    assert len(written) == 8
    mine = 0 if user == "root" else 65534
    for path in written:
        for number in (path.stat().st_uid, path.stat().st_gid):
            assert number in DISK or number == mine != 0, (path, number)
    await images.store.close()


@RUNTIMES
async def test_an_image_is_its_own_users(box: Box, place: Path, runtime: str) -> None:
    layer = Layer(tar_of(file("srv/app/own", b"x", uid=1000, gid=1000, mode=0o600), folder("srv/app", uid=1000)))
    passwd = Layer(tar_of(file("etc/passwd", b"root:x:0:0::/:/bin/sh\napp:x:1000:1000::/:/bin/sh\n")))
    run = {"User": "app", "WorkingDir": "/srv/app/made", "Volumes": {"/data": {}}}
    images = Images(place / "images", one=busybox_image(layer, passwd, run=run))
    containerizer = await box.open(runtimes=(runtime,), users=POOL, images=images.store)
    shell = (
        "id -u; stat -c '%u %a' /srv/app/own /data .; cat ../own; touch ../new; stat -c %u ../new /mnt/mesos/sandbox"
    )
    await containerizer.launch(box.config("c", image=ask(shell=shell), environment={}))
    await containerizer.wait("c")
    assert box.said("c").split("\n") == ["1000", "1000 600", "0 755", "0 755", "x1000", "1000", ""], box.said(
        "c", "stderr"
    )
    await containerizer.destroy("c")
    assert not [p for p in (place / "images" / "store").rglob("*") if p.lstat().st_uid >= IDS.first]
    await images.store.close()


@RUNTIMES
async def test_what_is_nested_and_who_enters_are_in_the_same_namespace(box: Box, runtime: str) -> None:
    containerizer = await box.open(runtimes=(runtime,), users=POOL)
    parent = await containerizer.launch(box.config("p", shell=FOREVER, user="nobody"))
    child = replace(box.config("p.c", shell="id -u; " + FOREVER, user="nobody", mem_bytes=0), cpus_milli=0)
    inner = await containerizer.launch(child)
    await asyncio.to_thread(box.until_said, "p.c", "ready")
    assert box.said("p.c").split() == ["65534", "ready"]
    assert Path(f"/proc/{parent}/ns/user").readlink() == Path(f"/proc/{inner}/ns/user").readlink()
    found = await containerizer.enter(SessionConfig("p.s", Command(value="id -u; cat /proc/self/uid_map")))
    said = b"".join([data async for _, data in found]).split()
    assert said == [b"65534", b"0", str(IDS.first).encode(), str(IDS.count).encode()]
    # Agents come and go, with the flag and without; containers stay what they are.
    await containerizer.close()
    later = await box.open(live=["p", "p.c"], runtimes=(runtime,))
    again = replace(box.config("p.d", shell=FOREVER, user="nobody", mem_bytes=0), cpus_milli=0)
    third = await later.launch(again)
    assert Path(f"/proc/{parent}/ns/user").readlink() == Path(f"/proc/{third}/ns/user").readlink()
    plain = await later.launch(box.config("q", shell=FOREVER))
    assert Path(f"/proc/{plain}/ns/user").readlink() == Path("/proc/self/ns/user").readlink()
    for name in ("p", "q"):
        await later.destroy(name)


@RUNTIMES
async def test_it_joins_networks(box: Box, place: Path, tmp_path: Path, runtime: str) -> None:
    with cni_network(tmp_path) as network:
        network.write_chain()
        containerizer = await box.open(users=POOL, runtimes=(runtime,), networks=_networks(box, network))
        config = box.config("c", shell="ip -4 -o addr show 2>/dev/null || cat /proc/net/fib_trie; hostname")
        await containerizer.launch(replace(config, networks=(network.info(),), hostname="guest"))
        await containerizer.wait("c")
        assert network.prefix in box.said("c")
        assert box.said("c").splitlines()[-1] == "guest"
        await containerizer.destroy("c")


def _networks(box: Box, network: CniNetwork) -> Networks:
    return Networks(box.folder / "run" / "isolators" / "network" / "cni", network.configs, [PLUGINS], {})


@pytest.mark.parametrize(
    ("runtime", "user", "image"),
    [("crun", "root", False), ("crun", "nobody", True), ("runc", "root", True), ("runc", "nobody", False)],
)
async def test_a_container_has_a_terminal(box: Box, place: Path, runtime: str, user: str, image: bool) -> None:
    images = Images(place / "images", one=busybox_image(Layer(tar_of(folder("tmp", mode=0o1777)))))
    containerizer = await box.open(runtimes=(runtime,), users=POOL, images=images.store)
    shell = "tty; stty size; echo by tty > /dev/tty; echo by console > /dev/console; read line; echo heard $line"
    asked = {"image": ask(shell=shell), "environment": {}} if image else {"shell": shell}
    config = replace(box.config("c", user=user, **asked), terminal=True, window=(30, 90))  # type: ignore[arg-type]
    await containerizer.launch(config)
    board = containerizer.switchboard("c")
    assert board is not None
    await asyncio.to_thread(box.until_said, "c", "by console")
    await board.write(b"a line\r")
    await containerizer.wait("c")
    said = box.said("c").replace("\r", "").split("\n")
    assert (said[0], "30 90" in said, "by tty" in said) == ("/dev/pts/0", True, True), said
    assert "heard a line" in said
    await containerizer.destroy("c")
    await images.store.close()


@pytest.fixture
def around(place: Path) -> Iterator[Path]:
    """A folder of nobody's with other file systems below it, one of them of the kernel's, one in another."""
    folder = place / "around"
    (folder / "roots" / "in").mkdir(parents=True)
    mounted = [folder / "sub", folder / "sub" / "deep", folder / "proc", folder / "roots" / "in"]
    with ExitStack() as closing:
        for path in mounted:
            path.mkdir(exist_ok=True)
            kind = b"proc" if path.name == "proc" else b"tmpfs"
            call("mount", kind, str(path).encode(), kind, 0, b"" if kind == b"proc" else b"mode=755")
            closing.callback(unmount, path)
            if kind == b"tmpfs":
                (path / "file").write_text(f"{path.name}\n")
                (path / "file").chmod(0o600)
                for owned in (path, path / "file"):
                    os.chown(owned, 65534, 65534)
        os.chown(folder, 65534, 65534)
        (folder / "roots").chmod(0o700)
        yield folder


@pytest.mark.parametrize(
    ("runtime", "image", "read_only"),
    [("crun", False, False), ("crun", True, True), ("runc", False, True), ("runc", True, False)],
)
async def test_what_is_mounted_below_a_volume_is_there_with_its_owners(
    box: Box, place: Path, around: Path, runtime: str, image: bool, read_only: bool
) -> None:
    """crun left it out, and one file system that maps no owners took them from all others."""
    at = place / "at"
    at.mkdir()
    images = Images(place / "images", one=busybox_image())
    containerizer = await box.open(runtimes=(runtime,), users=POOL, images=images.store)
    volume = Volume(str(around), "/seen" if image else str(at), read_only=read_only)
    shell = f"""cd {volume.destination}
    stat -c '%n %u %g' . sub sub/file sub/deep/file; cat sub/file sub/deep/file
    {{ echo more > sub/new; echo more > sub/deep/new; }} 2>/dev/null && echo written
    test -r proc/uptime && echo proc; {{ echo x > proc/sys/kernel/hostname; }} 2>/dev/null && echo broken; true"""
    asked = {"image": ask(shell=shell), "environment": {}} if image else {"shell": shell}
    await containerizer.launch(box.config("c", user="nobody", volumes=(volume,), **asked))  # type: ignore[arg-type]
    await containerizer.wait("c")
    owned = [f"{name} 65534 65534" for name in (".", "sub", "sub/file", "sub/deep/file")]
    writes = TMPFS_MAPS and not read_only
    seen = [*(["sub", "deep"] if TMPFS_MAPS else []), *(["written"] if writes else [])]
    assert box.said("c").splitlines() == [*owned, *seen, "proc"], box.said("c", "stderr")
    await containerizer.destroy("c")
    new = [around / "sub" / "new", around / "sub" / "deep" / "new"]
    assert [path.stat().st_uid for path in new if path.exists()] == ([65534, 65534] if writes else [])
    await images.store.close()


async def test_an_agent_in_a_folder_that_is_closed_says_so(tmp_path: Path) -> None:
    """Folders of pytest are: an agent there would start no container."""
    box = Box(tmp_path / "box")
    with pytest.raises(Unavailable, match=r"chmod o\+x"):
        await box.open(users=POOL)
    assert box.leftovers() == []


async def test_a_sandbox_in_a_folder_that_is_closed_is_refused(box: Box) -> None:
    containerizer = await box.open(users=POOL)
    config = box.config("c", shell="true")
    config.sandbox.parent.chmod(0o700)
    with pytest.raises(ContainerError, match=r"sandboxes \(mode 0700\)"):
        await containerizer.launch(config)


async def test_a_user_whom_the_range_has_no_number_for_is_refused(box: Box) -> None:
    containerizer = await box.open(users=IdPool(IdRange(IDS.first, 65000)))  # shorter than a flag may say
    with pytest.raises(BadInput, match=r"65534.*65000"):
        await containerizer.launch(box.config("c", shell="true", user="nobody"))
