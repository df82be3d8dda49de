"""What the command line says of files that the agent has collected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import requests

from mesos_gpu.testing.factory import BoxFactory

pytestmark = pytest.mark.root


def test_the_log_of_a_task_whose_sandbox_was_collected_says_so(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=1, marathon=True, agent_flags={"gc_delay": "1ms"})
    env = {**os.environ, "MARATHON_URL": str(box.marathon_url), "MESOS_URL": box.url}

    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "marathon_cli", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert box.marathon_url is not None
    app = {"id": "/short", "cmd": "echo hello; exit 1", "cpus": 0.1, "mem": 32, "backoffSeconds": 3600}
    assert requests.post(f"{box.marathon_url}/v2/apps", json=app, timeout=30).status_code == 201
    agent = str(box.agents[0].url)

    def gone() -> bool:
        known = requests.get(f"{box.marathon_url}/v2/apps//short", timeout=30).json()["app"].get("lastTaskFailure")
        return bool(known) and bool(
            requests.get(f"{agent}/metrics/snapshot", timeout=30).json()["gc/path_removals_succeeded"] >= 4
        )

    box.until("the sandbox of the failed task is collected", gone)
    for words in (("task", "log", "short"), ("task", "ls", "short")):
        done = cli(*words)
        assert done.returncode == 1, done
        assert "--gc_delay=1ms" in done.stderr
