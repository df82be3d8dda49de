"""A fault in the middle of an upgrade or a downgrade, with tasks running.

Files are as an earlier version had written them, or have more in them than today's knows; today's starts on them, and
meanwhile all of it is killed, or the disk is full, or a file was cut in two before. No task is lost and none is there
twice: in the end there are as many as there were, with as many GPUs, and but for a damaged file the same.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import end_left_behind
from tests.support.box.live import LiveBox, leftovers
from tests.support.box.versions import MORE, Change, as_of, die, files, rewrite, running, shapes_of, unpacked, up
from tests.support.disk import FailingDisk, missing
from tests.support.histories import examples

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(missing() != "", reason=missing() or "it is all there"),
]
TASKS, FREE = 3, 1
KILLS, FULL, CUTS = examples(1), examples(1), examples(2)
PROGRAMS = (b"mesos_gpu.local", b"mesos_gpu.master", b"mesos_gpu.agent", b"mesos_gpu.marathon")
PORTS = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
UP = ("up", "--detach", "--open", "--gpu_driver=simulated", "--simulated_gpus=4", *PORTS)


@pytest.fixture
def box(disk: FailingDisk) -> Iterator[LiveBox]:
    """A box that is not up yet, on a disk of its own."""
    box = LiveBox(disk.at / "box")
    box.env["MESOS_EXECUTOR_REREGISTRATION_TIMEOUT"] = "15secs"  # a pod's executor has 2 s to come back, on any machine
    try:
        yield box
    finally:
        if not box.work_dir.joinpath("box.json").exists() or box.cli("status").returncode != 0:
            end_left_behind(runtime_dir(box.work_dir))  # a test that failed between two boxes
    if (box.work_dir / "box.json").exists():
        done = box.cli("down")
        assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    assert leftovers(box.work_dir) == []


@pytest.fixture
def changes(tmp_path: Path, box: LiveBox) -> list[Change]:
    """What makes of today's files those of the first build, of the second, and of a later one."""
    recorded = [unpacked(f"{name}.tar.xz", tmp_path / name, box.work_dir) for name in ("first", "second")]
    earlier = [as_of(shapes_of(folder)) for folder in recorded]
    return [*earlier, lambda _, document: {**document, **MORE} if isinstance(document, dict) else document]


def services(box: LiveBox) -> set[int]:
    """Return the processes of a box that is coming up, or is up: those of ours that were told its folder.

    A program that `up` has just begun to start looks like `up` itself, which has the folder in its environment.
    """
    found, folder = set(), os.fsencode(box.work_dir)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        coming = b"marathon_cli" in words and b"MESOS_GPU_WORK_DIR=" + folder in variables
        told = any(folder in word for word in words) and any(word.startswith(PROGRAMS) for word in words)
        if words[0] == os.fsencode(sys.executable) and (coming or told):
            found.add(int(process.name))
    return found


def killed_while_it_comes_up(box: LiveBox, after_s: float) -> None:
    """Bring a box up, and kill whatever there is of it by then."""
    with subprocess.Popen(
        [sys.executable, "-m", "marathon_cli", *UP], env=box.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as coming:
        time.sleep(after_s)
        coming.kill()
    while left := services(box):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_a_fault_in_the_middle_of_an_upgrade_and_of_a_downgrade(
    box: LiveBox, disk: FailingDisk, changes: list[Change]
) -> None:
    dice = random.Random(seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    box.work_dir.mkdir()
    unpacked("first.tar.xz", box.work_dir, box.work_dir)
    shutil.rmtree(box.work_dir / "runtime")  # gone with the boot
    up(box)
    box.until("the app's and the pod's tasks run again", lambda: len(running(box)) == TASKS)
    box.until("three GPUs are taken", lambda: box.gpus_free() == FREE)
    before = running(box)

    def is_as_before() -> bool:
        return running(box) == before and box.gpus_free() == FREE

    die(box)
    for _ in range(KILLS):
        rewrite(box.work_dir, dice.choice(changes))
        killed_while_it_comes_up(box, dice.uniform(0.2, 2.5))
        assert all(Path(f"/proc/{pid}").exists() for pid in before.values())
    up(box)
    box.until("the same tasks are known after kills", is_as_before)
    for _ in range(FULL):
        die(box)
        rewrite(box.work_dir, dice.choice(changes))
        disk.fill()
        refused = box.cli(*UP)
        assert all(Path(f"/proc/{pid}").exists() for pid in before.values()), refused.stderr
        disk.empty()
        if refused.returncode == 0:
            die(box)
        else:
            said = refused.stderr + box.logs()  # on a busy machine it may say that nothing came up, and the log why
            assert "No space left on device" in said or "disk is full" in said, said
        up(box)
        box.until("the same tasks are known after a full disk", is_as_before)
    kinds = sorted({kind for kind, _ in files(box.work_dir, runtime_dir(box.work_dir))})
    die(box)
    rewrite(box.work_dir, dice.choice(changes))
    for number in range(CUTS):
        if number:
            die(box)
        kind = kinds[dice.randrange(len(kinds))]
        path = dice.choice([one for name, one in files(box.work_dir, runtime_dir(box.work_dir)) if name == kind])
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        refused = box.cli(*UP)
        if refused.returncode != 0:
            assert path.name in refused.stderr + box.logs(), refused.stderr
            path.write_bytes(whole)
            up(box)
        box.until(f"as many tasks run after {kind} was cut", lambda: len(running(box)) == TASKS)
        box.until(f"as many GPUs are taken after {kind} was cut", lambda: box.gpus_free() == FREE)
