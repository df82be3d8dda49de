"""A box on a disk that is full, that hangs, and that fails, by the kernel itself, while tasks start and end.

Full and hanging, it heals by itself. One that fails the kernel makes read-only for good: tasks run on, what cannot be
kept is refused in words, `down` still ends everything, and once the disk was looked over nothing that was said is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.box.live import LiveBox, nothing_left
from tests.support.box.steady import begin, is_well, noted, processes, steady
from tests.support.disk import FailingDisk, missing

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(missing() != "", reason=missing() or "it is all there"),
]
UP = ("--gpu_driver=simulated", "--simulated_gpus=4")
BEFALLS_S = 0.7


@pytest.fixture
def box(disk: FailingDisk) -> Iterator[LiveBox]:
    """A box on that disk, with 4 simulated GPUs; nothing of it is left afterwards."""
    box = LiveBox(disk.at / "box")
    with nothing_left(box):
        box.up(*UP)
        yield box
        disk.thaw()
        disk.empty()
        if disk.has_failed or box.cli("down").returncode != 0:
            # Where the test ended on a disk that takes nothing: what one does then, so that `down` can end it all.
            box.cli("down")
            disk.repair()
            box.up(*UP)


def scale(box: LiveBox, instances: int) -> int:
    """Request this number of instances; return the status of the response, 0 if there is none."""
    url = f"{noted(box).marathon.url}/v2/apps/steady?force=true"
    try:
        answer = requests.put(url, json={"instances": instances}, timeout=2)
    except requests.RequestException:
        return 0
    return answer.status_code


def test_a_disk_that_is_full_that_hangs_and_that_fails(disk: FailingDisk, box: LiveBox) -> None:
    begin(box)
    for befall, heal, statuses in ((disk.fill, disk.empty, {200, 503}), (disk.freeze, disk.thaw, {200, 0})):
        befall()
        assert scale(box, 3) in statuses
        time.sleep(BEFALLS_S)
        heal()
        box.until("the change is taken", lambda: scale(box, 2) == 200)
        box.until("all is well again", lambda: is_well(box, 2))
    before, their_processes = steady(box), processes(box)
    assert len(their_processes) == 2
    disk.fail()
    box.until("the kernel gives the disk up", lambda: scale(box, 3) != 200 and disk.is_read_only())
    assert scale(box, 3) in (0, 503)
    assert processes(box) == their_processes
    done = box.cli("down")
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(Path(f"/proc/{pid}").exists() for pid in their_processes)
    disk.repair()
    box.up(*UP)
    box.until("both run again", lambda: is_well(box, 2))
    assert not before & steady(box), "one that ended is said to run"
