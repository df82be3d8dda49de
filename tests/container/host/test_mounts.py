from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mesos_gpu.base.linux.mounts import Mount, read_mounts
from mesos_gpu.container.cgroups import hierarchies_v1
from mesos_gpu.container.host import mounts as mounts_module
from mesos_gpu.container.host.mounts import PINNED, enter_private_mounts

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
