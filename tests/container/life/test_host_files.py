"""Local files are fetched exactly if the task can read them: compared with `cat` in real containers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.agent.fetch.fetch_cache import FetchCache
from mesos_gpu.agent.fetch.fetcher import Fetcher, FetcherSettings
from mesos_gpu.agent.model.fetch_uris import read_uris
from mesos_gpu.container import ContainerConfig, Containerizer
from mesos_gpu.container.host import opener, sources
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.linux import USUAL, LinuxSettings
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.container.box import Box
from tests.support.folders import open_folder

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

NOBODY, STRANGER, EXTRA_GROUP = 65534, 4321, 4322
FIRST, EACH = 1_879_048_192, 65536
OWN, SHARED = IdPool(IdRange(FIRST, 4 * EACH)), IdPool(IdRange(FIRST, EACH))
POOLS = {"host users": None, "own numbers": OWN, "shared numbers": SHARED}
WITHOUT_OVERRIDE = LinuxSettings(effective=("CAP_CHOWN",))
ONLY_BOUNDING = LinuxSettings(effective=("CAP_CHOWN",), bounding=("CAP_CHOWN", "CAP_DAC_OVERRIDE"))
WITH_OVERRIDE = LinuxSettings(effective=("CAP_DAC_OVERRIDE",))


class Task(Struct, frozen=True):
    """A kind of task: who runs it, with what."""

    user: str
    groups: tuple[int, ...] = ()
    linux: LinuxSettings = USUAL
    host_users: bool = False


TASKS = (
    Task("root"),
    Task("root", host_users=True),
    Task("root", linux=WITHOUT_OVERRIDE),
    Task("root", linux=ONLY_BOUNDING),
    Task("nobody"),
    Task("nobody", groups=(EXTRA_GROUP,)),
    Task("nobody", linux=WITH_OVERRIDE),
)
MODES = (0o000, 0o400, 0o040, 0o004, 0o404, 0o644)
OWNERS = (
    *((0, 0), (NOBODY, NOBODY), (STRANGER, STRANGER), (STRANGER, EXTRA_GROUP)),
    *((FIRST, FIRST), (FIRST + EACH, FIRST + EACH), (FIRST + EACH + STRANGER, FIRST + EACH + STRANGER)),
)
FOLDERS = (
    *((0o755, 0, 0), (0o711, 0, 0), (0o700, 0, 0), (0o644, 0, 0), (0o700, NOBODY, NOBODY), (0o750, 0, EXTRA_GROUP)),
    *((0o700, FIRST + EACH, FIRST + EACH), (0o700, FIRST, FIRST)),
)


def test_file_systems_of_the_kernel_are_those_that_no_volume_shows() -> None:
    assert set(opener.KERNEL_FILE_SYSTEMS) == sources.KERNEL


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


class Work:
    """Containers and one fetcher, whose cache all of them share."""

    def __init__(self, box: Box, home: Path) -> None:
        self.box, self.home, self.names = box, home, count(1)
        self.fetcher = Fetcher(FetchCache(box.folder / "cache", 64 << 20), FetcherSettings(frameworks_home=str(home)))
        self.fetcher.open()

    def config(self, task: Task, shell: str, name: str | None = None) -> ContainerConfig:
        config = self.box.config(name or f"c{next(self.names)}", shell=shell, user=task.user, linux=task.linux)
        return replace(config, host_users=task.host_users)

    async def read_inside(self, containerizer: Containerizer, task: Task, paths: Sequence[Path]) -> set[Path]:
        """Return which of these files `cat` can read in a container."""
        listed = self.box.folder / f"paths-{next(self.names)}"
        listed.write_text("".join(f"{path}\n" for path in paths))
        listed.chmod(0o644)
        shell = f'n=0; while read -r p; do timeout 2 cat "$p" >/dev/null 2>&1 && echo $n; n=$((n+1)); done < {listed}'
        config = self.config(task, shell)
        await containerizer.launch(config)
        assert (await containerizer.wait(config.container_id)).exit_code is not None
        await containerizer.destroy(config.container_id)
        return {paths[int(number)] for number in self.box.said(config.container_id).split()}

    async def fetch(
        self, containerizer: Containerizer, config: ContainerConfig, uris: Mapping[str, str], *, cache: bool
    ) -> tuple[Path, set[str]]:
        """Fetch all of `uris`, by the names of the files they become; return the sandbox, and which names failed."""
        sandbox = self.box.folder / f"fetched-{next(self.names)}"
        sandbox.mkdir()
        documents: list[dict[str, Any]] = [
            {"value": uri, "output_file": name, "cache": cache, "extract": False} for name, uri in uris.items()
        ]
        files = partial(containerizer.files, config)
        try:
            await self.fetcher.fetch("c", sandbox, read_uris({"uris": documents}), config.user, files)
        except ContainerError:
            report = (sandbox / "stderr").read_text().splitlines()
            failed = {name for name, uri in uris.items() if any(f"Failed to fetch '{uri}'" in line for line in report)}
            assert failed, report
            return sandbox, failed
        return sandbox, set()


def forms(path: Path, home: Path) -> tuple[str, ...]:
    """Return the ways to write the URI of a file; `link` and `around` lead to it, and to its folder, by links."""
    number = path.name
    return (
        str(path),
        f"file://{path}",
        f"file://localhost{path}",
        f"FILE://{path}",
        "file:///" + quote(str(path)[1:]).replace("matrix", "m%61tr%69x"),
        os.path.relpath(path, home),
        f"{path.parent}/../{path.parent.name}/./{number}",
        f"file://{home}/link-{number}",
        f"{home}/around-{path.parent.name}/{number}",
    )


def make_matrix(place: Path) -> list[Path]:
    """Make a file of each mode and owner in a folder of each kind; each has its own content."""
    paths = []
    home = place / "home"
    home.mkdir()
    for at, (folder_mode, *folder_owner) in enumerate(FOLDERS):
        folder = place / "matrix" / f"d{at}"
        folder.mkdir(parents=True)
        (home / f"around-{folder.name}").symlink_to(folder)
        for mode, owner in product(MODES, OWNERS):
            path = folder / f"f{len(paths)}"
            path.write_text(f"content of {path.name}\n")
            path.chmod(mode)
            os.chown(path, *owner)
            (home / f"link-{path.name}").symlink_to(f"../matrix/{folder.name}/{path.name}")
            paths.append(path)
        os.chown(folder, *folder_owner)
        folder.chmod(folder_mode)
    return paths


@pytest.mark.slow
async def test_a_file_is_fetched_if_and_only_if_the_task_can_read_it(
    box: Box, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every mode, owner and folder for every kind of task; forms of URIs take turns. All share one cache."""
    paths = make_matrix(place)
    work, shift = Work(box, place / "home"), count()
    numbers_read = {}
    for kind, pool in POOLS.items():
        containerizer = await box.open(users=pool)
        for task in TASKS:
            with monkeypatch.context() as patch:
                patch.setattr(os, "getgrouplist", lambda name, gid, task=task: [gid, *task.groups])
                readable = await work.read_inside(containerizer, task, paths)
                numbers_read[kind, task] = len(readable)
                for cache in (False, True):
                    turn = next(shift)
                    uris = {}
                    for index, path in enumerate(paths):
                        written = forms(path, work.home)
                        uris[path.name] = written[(index + turn) % len(written)]
                    config = work.config(task, "true")
                    _, failed = await work.fetch(containerizer, config, uris, cache=cache)
                    expected = {path.name for path in paths if path not in readable}
                    assert failed == expected, (kind, task, cache, failed ^ expected)
                    good = {name: uri for name, uri in uris.items() if name not in failed}
                    sandbox, failed = await work.fetch(containerizer, config, good, cache=cache)
                    assert failed == set()
                    for name in good:
                        assert (sandbox / name).read_text() == f"content of {name}\n"
    assert len(set(numbers_read.values())) > 5, "kinds of tasks differ in what they can read"
    assert all(0 < number <= len(paths) for number in numbers_read.values()), numbers_read


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_nothing_but_regular_files_of_disks_is_fetched_and_nothing_waits(
    box: Box, place: Path, pool: IdPool | None, user: str
) -> None:
    containerizer, task = await box.open(users=pool), Task(user)
    work = Work(box, place)
    other = work.config(task, "umask 077; echo mine > /dev/shm/x; echo ready; exec sleep 1000", "other")
    pid = await containerizer.launch(other)
    await asyncio.to_thread(box.until_said, "other", "ready")
    os.mkfifo(place / "fifo")
    os.mknod(place / "zero", 0o020666, os.makedev(1, 5))
    for name in ("fifo", "zero"):
        (place / name).chmod(0o666)
    (place / "folder").mkdir()
    (place / "to-fifo").symlink_to("fifo")
    (place / "to-nothing").symlink_to("nothing")
    (place / "loop").symlink_to("loop")
    (place / "to-proc").symlink_to("/proc/self/environ")
    (place / "long").symlink_to("x" * 255)
    shm = Path(f"/dev/shm/mesos-gpu-test-{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        (place / "socket").chmod(0o666)
        try:
            shm.write_text("of the host")
            shm.chmod(0o644)
            uris = [
                *(f"file://{place}/{name}" for name in ("fifo", "zero", "folder", "to-fifo", "socket", "loop", "long")),
                *(f"{place}/to-nothing", f"{place}/to-proc", f"file://{shm}", "/dev/null", "/dev/fd/0", "/dev/stdin"),
                *(f"/proc/{of}/{name}" for of in ("self", os.getpid(), pid) for name in ("environ", "maps", "fd/0")),
                *(f"/proc/{of}/root{path}" for of in (os.getpid(), pid) for path in (shm, "/dev/shm/x", "/etc/passwd")),
                *("/proc/thread-self/cmdline", "/proc/1/environ", "/proc/cpuinfo", "/sys/kernel/uevent_seqnum"),
                *("/sys/fs/cgroup/cgroup.procs", "/" + "a/" * 3000 + "x"),
            ]
            _, failed = await work.fetch(
                containerizer, work.config(task, "true"), {f"n{i}": uri for i, uri in enumerate(uris)}, cache=False
            )
            assert failed == {f"n{i}" for i in range(len(uris))}
        finally:
            shm.unlink()
    await containerizer.destroy("other")


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
async def test_a_nested_container_fetches_what_its_parent_can_read(box: Box, place: Path, pool: IdPool | None) -> None:
    containerizer, work = await box.open(users=pool), Work(box, place)
    (place / "secret").write_text("secret")
    (place / "secret").chmod(0o600)
    os.chown(place / "secret", STRANGER, STRANGER)
    parent = work.config(Task("nobody"), "umask 077; echo own > own; echo ready; exec sleep 1000", "parent")
    os.chown(parent.sandbox, NOBODY, NOBODY)
    await containerizer.launch(parent)
    await asyncio.to_thread(box.until_said, "parent", "ready")
    nested = replace(parent, container_id="parent.child", sandbox=parent.sandbox / "child")
    uris = {"own": f"file://{parent.sandbox}/own", "secret": f"file://{place}/secret"}
    _, failed = await work.fetch(containerizer, nested, uris, cache=False)
    assert failed == {"secret"}
    sandbox, failed = await work.fetch(containerizer, nested, {"own": uris["own"]}, cache=True)
    assert (failed, (sandbox / "own").read_text()) == (set(), "own\n")
    await containerizer.destroy("parent")


async def test_without_new_privileges_root_opens_files_with_the_capabilities_it_starts_with(
    box: Box, place: Path
) -> None:
    containerizer = await box.open(hardening=Hardening(no_new_privileges=True))
    path = place / "secret"
    path.write_text("secret")
    path.chmod(0)
    work, task = Work(box, place), Task("root", linux=ONLY_BOUNDING)
    inside = await work.read_inside(containerizer, task, [path])
    _, failed = await work.fetch(containerizer, work.config(task, "true"), {"secret": str(path)}, cache=False)
    assert (inside, failed) == (set(), {"secret"})


async def test_numbers_lent_for_a_fetch_are_no_containers(box: Box, place: Path) -> None:
    containerizer, work = await box.open(users=IdPool(IdRange(FIRST, 3 * EACH))), Work(box, place)
    shell = "xargs < /proc/self/uid_map; exec sleep 1000"
    async with (
        containerizer.files(work.config(Task("root"), shell)),
        containerizer.files(work.config(Task("nobody"), shell)),
    ):
        await containerizer.launch(work.config(Task("root"), shell, "one"))
        with pytest.raises(ContainerError):
            await containerizer.launch(work.config(Task("root"), shell, "two"))
    await containerizer.launch(work.config(Task("root"), shell, "three"))
    for name, first in (("one", FIRST + 2 * EACH), ("three", FIRST + EACH)):
        await asyncio.to_thread(box.until_said, name, f"0 {first} {EACH}\n")
    with pytest.raises(ContainerError):
        async with containerizer.files(work.config(Task("root"), shell)):
            pass
    for name in ("one", "three"):
        await containerizer.destroy(name)


@pytest.mark.parametrize("uri", ["file:///etc/passwd%00x", "file://localhost/%00", "FILE:///etc%00/passwd"])
def test_a_path_with_a_nul_byte_is_refused(uri: str) -> None:
    with pytest.raises(BadInput):
        read_uris({"uris": [{"value": uri, "output_file": "x"}]})
