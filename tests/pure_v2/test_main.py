"""What is said where the virtual machine cannot be tried."""

from __future__ import annotations

import subprocess
import sys

from tests.pure_v2.__main__ import CANNOT, GUEST, KERNEL_WORDS, machine
from tests.support import places


def test_without_its_programs_it_says_so_and_that_nothing_was_tried() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pure_v2"],
        cwd=places.ROOT,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == CANNOT
    assert "pure cgroup v2: not tried, since " in done.stdout


def test_the_machine_has_no_network_no_version_1_and_writes_to_its_disk_alone() -> None:
    folder = places.ROOT / "nowhere"
    command = machine(folder / "vmlinuz", "tcg", "1G", folder, folder / "files")
    assert command[command.index("-nic") + 1] == "none"
    assert "cgroup_no_v1=all" in KERNEL_WORDS.split()
    assert [word for word in command if word.startswith("file=")] == [
        f"file={folder}/disk,if=none,id=disk,format=raw,cache=unsafe"
    ]
    assert "mount -t virtiofs root /lower -o ro" in (GUEST / "init").read_text()
