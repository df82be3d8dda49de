"""Root file systems made by strangers: no path in one leads out of it."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.disk.sandbox import make_nested_sandbox, remove_sandbox
from mesos_gpu.base.linux.mounts import Mount, read_mounts
from mesos_gpu.base.linux.processes import start_time
from mesos_gpu.container.cgroups import hierarchies_v1
from mesos_gpu.container.host import beneath
from mesos_gpu.container.host import mounts as mounts_module
from mesos_gpu.container.host.beneath import folder_at, make_folders, open_beneath
from mesos_gpu.container.host.disk import DiskRules, OverQuota, over_quota, used_bytes, watch_disk
from mesos_gpu.container.host.filters import ANNOTATION, REMEMBERED, Filters
from mesos_gpu.container.host.inside import find_image_user, make_folder, resolve
from mesos_gpu.container.host.mounts import PINNED, enter_private_mounts
from mesos_gpu.container.host.processes import Process, is_in_cgroup, pids_naming
from mesos_gpu.container.host.rootfs import short_names
from mesos_gpu.container.host.runtime import Runtime
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.sandbox import open_output, own_all, prepare_volumes
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.errors import BadInput, ContainerError, MesosGpuError
from tests.support.golden import Golden
from tests.support.shortages import no_descriptors


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "passwd").write_text("root:x:0:0::/:\nme:x:1000:100::/:\nbroken\nodd:x:a:b::/:\n")
    (root / "etc" / "group").write_text("root:x:0:\nusers:x:100:\nvideo:x:44:me,you\n")
    return root


@pytest.mark.parametrize(
    ("link", "path", "found"),
    [
        (None, "/a/b", "a/b"),
        (None, "/../../etc", "etc"),
        (None, "a/./../b", "b"),
        ("/etc", "/link/passwd", "etc/passwd"),
        ("../../../etc", "/link/passwd", "etc/passwd"),
        ("/link2", "/link/x", "link2/x"),
    ],
)
def test_links_are_followed_inside(root: Path, link: str | None, path: str, found: str) -> None:
    if link is not None:
        (root / "link").symlink_to(link)
    assert resolve(root, path) == root / found


def test_links_that_go_round_are_refused(root: Path, golden: Golden) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(ContainerError) as refused:
        resolve(root, "/a/x")
    assert str(refused.value) == golden


def test_a_folder_is_made_inside_whatever_the_links_say(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(f"../../../../../../../..{tmp_path}/outside")
    make_folder(root, "/out/deep")
    assert not (tmp_path / "outside").exists()
    assert (root / str(tmp_path / "outside").lstrip("/") / "deep").is_dir()


def test_a_folder_cannot_be_where_a_file_is(root: Path, golden: Golden) -> None:
    with pytest.raises(ContainerError) as refused:
        make_folder(root, "/etc/passwd/x")
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("me", HostUser(1000, 100, (44,))),
        ("1000", HostUser(1000, 100, (44,))),
        ("1234", HostUser(1234, 0)),
        ("1234:5", HostUser(1234, 5)),
        ("me:video", HostUser(1000, 44)),
        ("root", HostUser(0, 0)),
    ],
)
def test_a_user_is_whom_the_images_own_files_say(root: Path, text: str, user: HostUser) -> None:
    assert find_image_user(root, text) == user


@pytest.mark.parametrize(
    "text",
    [
        *("nobody", "odd", "me:nogroup", ""),
        *("4294967295", "1:4294967295", "4294967296", pytest.param("9" * 5000, id="5000 digits")),
    ],
)
def test_an_unknown_user_or_group_is_refused(root: Path, text: str, golden: Golden) -> None:
    """To the kernel 4294967295 means "as it is", which is root."""
    with pytest.raises(BadInput) as refused:
        find_image_user(root, text)
    assert str(refused.value) == golden


def test_accounts_that_are_a_pipe_or_lead_outside_are_not_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("spy:x:5:5::/:\n")
    (root / "etc" / "passwd").unlink()
    os.mkfifo(root / "etc" / "passwd")
    with pytest.raises(BadInput):
        find_image_user(root, "me")
    (root / "etc" / "passwd").unlink()
    (root / "etc" / "passwd").symlink_to("../../passwd")
    with pytest.raises(BadInput):
        find_image_user(root, "spy")


TRIES = 300
ME = HostUser(os.geteuid(), os.getegid())


@pytest.fixture(params=["openat2", "folder by folder"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to look a path up: this kernel's own, and that of kernels which lack it."""
    monkeypatch.setattr(beneath._Kernel, "has_openat2", request.param == "openat2")
    return str(request.param)


@contextmanager
def swapping(place: Path, elsewhere: Path) -> Iterator[None]:
    """Have a folder and a link to `elsewhere` take turns at `place`, as fast as can be, as a sibling task may do."""
    folder, link, stop = place.with_name("the-folder"), place.with_name("the-link"), threading.Event()
    place.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)

    def swap() -> None:
        while not stop.is_set():
            for name, other in ((folder, link), (link, folder)):
                try:
                    place.rename(name)
                    other.rename(place)
                except OSError:
                    pass  # the agent was quicker

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("path", ["link", "link/inside", "a/up", "a/up/inside", "..", "a/../../elsewhere"])
def test_no_link_and_no_way_upwards_is_followed(tmp_path: Path, way: str, path: str) -> None:
    (tmp_path / "elsewhere" / "inside").mkdir(parents=True)
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "a" / "up").symlink_to("../../elsewhere")
    for flags in (beneath.FOLDER, os.O_PATH):
        with folder_at(tmp_path / "root") as root, pytest.raises(OSError) as refused:
            open_beneath(root, path, flags)
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV), way


def test_folders_are_made_and_those_that_are_there_stay_as_they_are(tmp_path: Path, way: str) -> None:
    (tmp_path / "old").mkdir(mode=0o700)
    with folder_at(tmp_path) as root:
        assert make_folders(root, "old/new/deep", ME, 0o750)
        assert not make_folders(root, "old/new", ME)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "old", tmp_path / "old/new/deep")]
    assert modes == [0o700, 0o750], way


@pytest.mark.root
def test_a_file_with_a_name_outside_is_not_given_away(tmp_path: Path) -> None:
    nobody = find_user("nobody")
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    (tmp_path / "shadow").touch()
    (sandbox / "mine").hardlink_to(tmp_path / "shadow")
    (sandbox / "one").touch()
    (sandbox / "two").hardlink_to(sandbox / "one")
    own_all(sandbox, nobody)
    assert (tmp_path / "shadow").stat().st_uid == os.geteuid()
    assert (sandbox / "one").stat().st_uid == nobody.uid


@pytest.mark.root
@pytest.mark.parametrize("what", ["a sandbox", "a volume", "output", "a gift", "a removal"])
def test_a_task_that_swaps_a_folder_for_a_link_gains_nothing(tmp_path: Path, way: str, what: str) -> None:
    """The agent makes, gives away and removes in `root/place`, while that is now a folder, now a link to the host's."""
    nobody = find_user("nobody")
    host, root = tmp_path / "host", tmp_path / "root"
    (host / "child").mkdir(parents=True)
    (host / "child" / "shadow").touch()
    (host / "shadow").touch()
    root.mkdir()
    before = {path: (path.stat().st_uid, path.stat().st_mode) for path in (host, *host.rglob("*"))}
    config = ContainerConfig(
        "p.c", root, ("true",), {}, "nobody", 100, 0, 0, volumes=(Volume("place/new/deep", "/mnt/x"),)
    )
    with swapping(root / "place", host):
        for number in range(TRIES):
            try:
                if what == "a sandbox":
                    shown = [(root / "place" / "seen" / str(number), root)]
                    make_nested_sandbox(root / "place" / f"new-{number}", root, shown, "nobody")
                elif what == "a volume":
                    prepare_volumes(config, nobody)
                elif what == "output":
                    os.close(open_output(root / "place" / f"out-{number}", nobody, root=root))
                elif what == "a gift":
                    own_all(root / "place" / "child", nobody, root=root)
                else:
                    remove_sandbox(tmp_path, root / "place" / "child")
            except (MesosGpuError, FileNotFoundError):
                pass  # refused, as it should be while the link is there
    assert {path: (path.stat().st_uid, path.stat().st_mode) for path in (host, *host.rglob("*"))} == before, way


CRUN, RUNC = Runtime("crun", Path("/usr/bin/crun")), Runtime("runc", Path("/usr/sbin/runc"))
COMPILED = bytes(range(16))


def document(action: str | None) -> dict[str, Any]:
    return {"linux": {} if action is None else {"seccomp": {"defaultAction": action, "syscalls": []}}}


def learnt(tmp_path: Path, compiled: bytes) -> Filters:
    filters, file = Filters(), tmp_path / "seccomp.bpf"
    file.write_bytes(compiled)
    key = filters.shorten(document("SCMP_ACT_ERRNO"), CRUN)
    assert key is not None
    filters.learn(key, file)
    return filters


def test_what_was_compiled_once_is_given_to_the_next_container_beside_its_list(tmp_path: Path) -> None:
    filters, next_one = learnt(tmp_path, COMPILED), document("SCMP_ACT_ERRNO")
    assert filters.shorten(next_one, CRUN) is None
    assert base64.b64decode(next_one["annotations"][ANNOTATION]) == COMPILED
    assert next_one["linux"] == document("SCMP_ACT_ERRNO")["linux"]


def test_another_list_is_compiled_anew(tmp_path: Path) -> None:
    filters, other = learnt(tmp_path, COMPILED), document("SCMP_ACT_KILL")
    assert filters.shorten(other, CRUN) is not None
    assert "annotations" not in other


@pytest.mark.parametrize("compiled", [b"", bytes(7), bytes(8 * 4097)])
def test_what_is_no_filter_is_not_taken(tmp_path: Path, compiled: bytes) -> None:
    filters, next_one = learnt(tmp_path, compiled), document("SCMP_ACT_ERRNO")
    assert filters.shorten(next_one, CRUN) is not None
    assert "annotations" not in next_one


def test_a_filter_that_is_not_there_is_not_taken(tmp_path: Path) -> None:
    filters = Filters()
    key = filters.shorten(document("SCMP_ACT_ERRNO"), CRUN)
    assert key is not None
    filters.learn(key, tmp_path / "missing")
    assert filters.shorten(document("SCMP_ACT_ERRNO"), CRUN) == key


def test_runc_and_containers_without_a_list_get_none(tmp_path: Path) -> None:
    filters = learnt(tmp_path, COMPILED)
    for other, runtime in ((document("SCMP_ACT_ERRNO"), RUNC), (document(None), CRUN)):
        assert filters.shorten(other, runtime) is None
        assert "annotations" not in other


def test_only_so_many_lists_are_kept(tmp_path: Path) -> None:
    filters = learnt(tmp_path, COMPILED)
    for number in range(REMEMBERED):
        key = filters.shorten(document(f"other {number}"), CRUN)
        assert key is not None
        filters.learn(key, tmp_path / "seccomp.bpf")
    assert filters.shorten(document("SCMP_ACT_ERRNO"), CRUN) is not None
    assert filters.shorten(document("other 1"), CRUN) is None


def start(*argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv)


async def test_a_child_is_waited_for_and_reaped() -> None:
    child = start("sleep", "60")
    process = Process.open(child.pid)
    assert process is not None
    process.kill(signal.SIGTERM)
    await process.wait()
    process.close()
    assert not Path(f"/proc/{child.pid}").exists()
    child.returncode = -signal.SIGTERM


def test_a_process_of_another_start_time_or_cgroup_is_not_it() -> None:
    started = start_time(os.getpid())
    assert started is not None
    assert Process.open(os.getpid(), start_time=started + 1) is None
    assert Process.open(os.getpid(), cgroup="/no/such/cgroup") is None
    ours = Process.open(os.getpid(), start_time=started)
    assert ours is not None
    ours.close()
    ours.close()


def test_a_process_that_is_gone_is_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert Process.open(child.pid) is None
    assert start_time(child.pid) is None
    assert not is_in_cgroup(child.pid, "/")


def test_one_that_cannot_be_looked_at_costs_no_descriptor() -> None:
    """There is room for the process's own, and none to read of it."""
    with no_descriptors(but=1):
        with pytest.raises(OSError, match="Too many open files"):
            Process.open(os.getpid())
        os.close(os.open(os.devnull, os.O_RDONLY))


def test_processes_are_found_by_a_whole_argument() -> None:
    with subprocess.Popen(["sleep", "60.125"]) as child:
        try:
            assert child.pid in pids_naming(["60.125"])
            assert child.pid not in pids_naming(["60.12"])
        finally:
            child.kill()


def test_it_is_what_du_says(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 300_000)
    (tmp_path / "twice").hardlink_to(tmp_path / "a/b/file")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    (tmp_path / "out").symlink_to("/usr")
    said = subprocess.run(["du", "-s", "-B1", str(tmp_path)], capture_output=True, check=True, text=True).stdout
    assert used_bytes(tmp_path) == int(said.split()[0])


def test_a_folder_that_is_gone_is_an_error_and_what_goes_meanwhile_is_not(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        used_bytes(tmp_path / "none")


def test_sizes_are_printed_as_mesos_prints_them(golden: Golden) -> None:
    assert over_quota(OverQuota(10 << 20, 1 << 30)) == golden
    assert over_quota(OverQuota(10_300 << 10, 0)) == golden


async def test_it_is_measured_again_and_again_and_only_enforced_where_that_is_asked_for(tmp_path: Path) -> None:
    seen: asyncio.Queue[int] = asyncio.Queue()
    shown = asyncio.ensure_future(watch_disk(tmp_path, lambda: 1, DiskRules(0.001), seen.put_nowait))
    first = [await seen.get() for _ in range(3)]
    assert min(first) > 1
    shown.cancel()
    await asyncio.gather(shown, return_exceptions=True)
    small = used_bytes(tmp_path)
    ended = asyncio.ensure_future(watch_disk(tmp_path, lambda: small, DiskRules(0.001, enforce=True), seen.put_nowait))
    await seen.get()
    assert not ended.done()
    (tmp_path / "more").write_bytes(b"x" * 100_000)
    found = await asyncio.wait_for(ended, 60)
    assert found.used > found.limit == small


def dig(folder: Path, levels: int, name: str) -> int:
    """Make folders in one another, each of this name; return a descriptor of the last."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    return at


@pytest.mark.parametrize(
    ("levels", "name"), [(30, "d" * 200), pytest.param(6000, "d", marks=pytest.mark.slow), (40, "ü" * 100)]
)
def test_what_lies_below_a_path_that_no_kernel_takes_counts(tmp_path: Path, levels: int, name: str) -> None:
    (tmp_path / "sandbox").mkdir()
    deep = dig(tmp_path / "sandbox", levels, name)
    before = used_bytes(tmp_path / "sandbox")
    file = os.open("hidden", os.O_WRONLY | os.O_CREAT, dir_fd=deep)
    os.write(file, b"x" * (1 << 20))
    os.fsync(file)
    os.close(file)
    os.close(deep)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    assert used_bytes(tmp_path / "sandbox") >= before + (1 << 20)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    subprocess.run(["rm", "-rf", tmp_path / "sandbox"], check=True)
    assert list(tmp_path.iterdir()) == []


TEXT = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
33 30 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
34 22 0:40 / /mnt/a\\040b rw master:7 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b
"""


def test_controllers_that_share_a_hierarchy_have_the_same_mount() -> None:
    found = hierarchies_v1(read_mounts(TEXT))
    assert {name: str(path) for name, path in found.items()} == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "devices": "/sys/fs/cgroup/devices",
        "name=systemd": "/sys/fs/cgroup/systemd",
    }


@pytest.mark.root
def test_a_namespace_that_another_agent_gives_up_meanwhile_is_no_reason_not_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Mount(f"{tmp_path}{PINNED}gone", "nsfs", (), False)
    listed = mounts_module.current_mounts
    monkeypatch.setattr(mounts_module, "current_mounts", lambda: (gone, *listed()))
    private: list[bool] = []

    def enter() -> None:
        enter_private_mounts()
        private.append(Path("/proc/thread-self/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert private == [True]


STORE = Path("/var/lib/store/layers")
LAYERS = [STORE / f"sha256-{number}" / "root" for number in range(3)]


def test_layers_are_named_from_the_folder_around_them() -> None:
    names = ["sha256-0/root", "sha256-1/root", "sha256-2/root"]
    assert short_names(LAYERS, 100) == (str(STORE), names)


def test_one_layer_is_named_too() -> None:
    assert short_names(LAYERS[:1], 100) == (str(LAYERS[0].parent), ["root"])


@pytest.mark.parametrize(("room", "fits"), [(42, True), (41, False)])
def test_names_that_need_more_than_there_is_are_not_taken(room: int, fits: bool) -> None:
    assert (short_names(LAYERS, room) is not None) is fits


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b"])
def test_names_with_a_meaning_in_options_are_not_taken(name: str) -> None:
    assert short_names([*LAYERS, STORE / name / "root"], 1000) is None
