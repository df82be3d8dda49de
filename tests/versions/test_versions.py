"""Other versions' files: what earlier builds wrote is read, also under running tasks, and so is what later ones will.

`first.tar.xz` and `second.tar.xz` are the files of two earlier builds of 0.1.0, each as it was while it ran an app of
two tasks, a pod and a job, with simulated GPUs: meta, Marathon's database, the registry, containers and GPUs on record.
A record of the next release is made the same way: a box at /srv/recorded, killed, its files put into an archive.

Today's build is in the middle. Upgrades: it starts on what the first wrote (after a reboot: tasks are started again),
and on its own files, with tasks running, cut back to what the first, and the second, had written. Downgrades: it starts
under running tasks on files in which a later version has written more than it knows; and refuses in words what only
that can read, so that nothing is lost until it is back.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.box.live import LiveBox
from tests.support.box.versions import (
    MORE,
    a_later_format,
    as_of,
    die,
    rewrite,
    running,
    shapes_of,
    unpacked,
    up,
)

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


def test_an_upgrade_and_a_downgrade_with_tasks_running(box: LiveBox, tmp_path: Path) -> None:
    box.work_dir.mkdir()
    unpacked("first.tar.xz", box.work_dir, box.work_dir)
    (box.work_dir / "runtime").rename(tmp_path / "gone-with-the-boot")
    up(box)  # what the first build wrote, before a reboot
    box.until("the app's and the pod's tasks run again", lambda: len(running(box)) == 3)
    box.until("three GPUs are taken", lambda: box.gpus_free() == 1)
    assert [job["id"] for job in json.loads(box.ok("job", "list", "-o", "json"))] == ["nightly"]
    before = running(box)
    for name in ("first.tar.xz", "second.tar.xz"):
        shapes = shapes_of(unpacked(name, tmp_path / name.partition(".")[0], box.work_dir))
        die(box)
        assert rewrite(box.work_dir, as_of(shapes))
        up(box)
        box.until("the same tasks are known", lambda: running(box) == before)
        box.until("their GPUs are counted", lambda: box.gpus_free() == 1)
    die(box)
    assert rewrite(box.work_dir, lambda _, document: {**document, **MORE} if isinstance(document, dict) else document)
    with a_later_format(box.work_dir) as (later, ours):
        refused = box.cli("up", "--detach", "--gpu_driver=simulated", "--simulated_gpus=4")
        assert refused.returncode == 1
        assert re.search(rf"\b{later}\b.*\b{ours}\b", refused.stderr + box.logs())
        assert all(Path(f"/proc/{pid}").exists() for pid in before.values())
    up(box)
    box.until("the same tasks are known", lambda: running(box) == before)
    box.until("their GPUs are counted", lambda: box.gpus_free() == 1)
    assert all(Path(f"/proc/{pid}").exists() for pid in before.values())
