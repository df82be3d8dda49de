"""A folder of helpers for each test that asks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon_cli.resident.ending import end_helpers
from tests.support.marathon_cli.residence import Residence


@pytest.fixture
def residence() -> Iterator[Residence]:
    # Not tmp_path: a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="mg-") as name:
        folder = Path(name)
        env = {key: value for key, value in os.environ.items() if not key.startswith(("MESOS_", "MARATHON_", "LC_"))}
        env = {key: value for key, value in env.items() if not key.startswith("PYTHON") or key == "PYTHONPYCACHEPREFIX"}
        env |= {
            "LANG": "C.UTF-8",
            "MESOS_GPU_RESIDENT_DIR": str(folder / "r"),
            "MESOS_GPU_WORK_DIR": str(folder / "no-box"),
            "MESOS_GPU_CONFIG_DIR": str(folder / "config"),
        }
        made = Residence(folder, env)
        with made.leaving:
            made.leaving.callback(end_helpers, env)
            yield made
