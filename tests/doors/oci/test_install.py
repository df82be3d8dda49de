"""`mesos-gpu door install`: the programs that others call, and where they ask."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doors.bank import Bank
from tests.support.golden import Golden

pytestmark = pytest.mark.root


def install(door: str, folder: Path, bank: Bank) -> str:
    environ = {**os.environ, "MESOS_GPU_AGENT": bank.url}
    words = [door, f"--prefix={folder}/bin", f"--hooks-dir={folder}/hooks", f"--settings={folder}/doors.json"]
    command = [sys.executable, "-m", "marathon_cli", "door", "install", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_each_door_has_its_programs_and_says_what_is_next(bank: Bank, tmp_path: Path, golden: Golden) -> None:
    said = await asyncio.to_thread(install, "docker", tmp_path, bank)
    assert said == golden
    assert (tmp_path / "bin/nvidia-container-runtime-hook").stat().st_mode & 0o777 == 0o755
    assert json.loads((tmp_path / "doors.json").read_text()) == {"agent": bank.url}
    said = await asyncio.to_thread(install, "nvidia-docker", tmp_path, bank)
    assert "nvidia-docker-plugin" in said
    version = await asyncio.to_thread(
        subprocess.run, [tmp_path / "bin/nvidia-docker-plugin", "-v"], capture_output=True, text=True
    )
    assert version.stdout == "NVIDIA Docker plugin: 1.0.1\n"
