"""A box that is not up yet; nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.box.live import LiveBox, leftovers
from tests.support.disk import disk

__all__ = ["box", "disk"]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path / "box")
    box.env["MESOS_EXECUTOR_REREGISTRATION_TIMEOUT"] = "15secs"  # a pod's executor has 2 s to come back, on any machine
    yield box
    if (box.work_dir / "box.json").exists():
        done = box.cli("down")
        assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    assert leftovers(box.work_dir) == []
