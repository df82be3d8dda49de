from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mesos_gpu.container.cgroups import hierarchies_v1
from mesos_gpu.container.host import mounts as mounts_module
from mesos_gpu.container.host.mounts import PINNED, Mount, enter_private_mounts, read_mounts
from mesos_gpu.container.host.rootfs import short_names

TEXT = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
33 30 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
34 22 0:40 / /mnt/a\\040b rw master:7 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b
"""


def test_mountinfo_is_read_with_blanks_in_paths_and_any_number_of_optional_fields() -> None:
    mounts = read_mounts(TEXT)
    assert mounts[0] == Mount("/", "ext4", ("rw", "discard"), shared=True)
    assert mounts[-1] == Mount("/mnt/a b", "overlay", ("rw", "lowerdir=/a:/b"), shared=False)


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
