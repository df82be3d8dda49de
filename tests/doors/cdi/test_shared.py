"""GPUs that Mesos' tasks share have no CDI name, and whoever looks for one is told why."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agent.live import LiveAgent, live_agent
from tests.support.golden import Golden

pytestmark = pytest.mark.root


async def said(agent: LiveAgent, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    where = [f"--spec-dir={folder}", f"--agent=http://127.0.0.1:{agent.port}"]
    command = [sys.executable, "-m", "marathon_cli", "cdi", *words, *where]
    environ = {**os.environ, "MESOS_GPU_WORK_DIR": str(folder / "no-box")}
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, env=environ, check=False
    )


async def test_a_shared_card_has_no_name_and_list_and_check_say_why(tmp_path: Path, golden: Golden) -> None:
    folder = tmp_path / "cdi"
    async with live_agent(tmp_path, "--shared_gpus=2", f"--cdi_spec_dir={folder}") as agent:
        listed = await said(agent, folder, "list", "-o", "json")
        names = [device["name"] for device in json.loads(listed.stdout)]
        assert [name for name in names if "GPU-" not in name] == [f"nvidia.com/gpu={n}" for n in ("0", "1", "3", "all")]
        (card,) = await agent.get("/gpu_shares")
        assert card["uuid"] in listed.stderr
        assert listed.stderr == golden
        checked = await said(agent, folder, "check")
        assert checked.returncode == 0, checked.stdout
        assert checked.stdout == golden
        silent = await said(agent, folder, "list", "--agent=http://127.0.0.1:1", "-q")
        assert silent.returncode == 0
