"""The mounts of a thread."""

from __future__ import annotations

from mesos_gpu.base.linux.mounts import Mount, current_mounts, read_mounts

TEXT = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:28 /part\\040of /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755
34 22 0:40 / /mnt/a\\040b rw master:7 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b
"""


def test_paths_can_contain_blanks_and_lines_any_number_of_optional_fields() -> None:
    root, part, overlay = read_mounts(TEXT)
    assert root == Mount("/", "ext4", ("rw", "discard"), shared=True)
    assert (part.root, part.flags, part.number) == ("/part of", ("rw", "nosuid"), "30")
    assert overlay == Mount("/mnt/a b", "overlay", ("rw", "lowerdir=/a:/b"), shared=False)


def test_this_thread_has_a_proc() -> None:
    assert any(mount.path == "/proc" and mount.kind == "proc" for mount in current_mounts())
