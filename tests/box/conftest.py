"""A whole box for tests: real services, real containers, and nothing left behind afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu.local.bridge import bridge_name
from mesos_gpu.local.plan import box_id, runtime_dir

PATIENCE_S = 60.0
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


class LiveBox:
    """One box in a work_dir of its own; `cli` runs the real command line in a process of its own."""

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self.env = {k: v for k, v in os.environ.items() if k not in ("MARATHON_URL", "MESOS_URL")}
        self.env["MESOS_GPU_WORK_DIR"] = str(work_dir)

    def cli(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "marathon_cli", *words]
        return subprocess.run(
            command, env=self.env, input=text, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
        )

    def ok(self, *words: str, text: str | None = None) -> str:
        """Run a command that must succeed; return its stdout."""
        done = self.cli(*words, text=text)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def up(self, *flags: str) -> str:
        ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
        return self.ok("up", "--detach", *ports, *flags)

    def status(self) -> dict[str, Any]:
        return json.loads(self.cli("status", "--json").stdout)  # type: ignore[no-any-return]

    def add(self, app: dict[str, Any]) -> str:
        return self.ok("app", "add", "-", "--wait", text=json.dumps(app))

    def tasks(self, app_id: str) -> list[dict[str, Any]]:
        return self.marathon(f"/v2/apps/{app_id}/tasks")["tasks"]  # type: ignore[no-any-return]

    def marathon(self, path: str) -> Any:
        return requests.get(self.status()["marathon"]["url"] + path, timeout=10).json()

    def gpus_free(self) -> int:
        return sum(agent["gpus_free"] or 0 for agent in self.status()["agents"])

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until something holds; what the services logged is in the failure."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except (requests.RequestException, ValueError, KeyError, TypeError, AssertionError):
                pass  # a service that is being restarted does not answer
            time.sleep(0.1)
        pytest.fail(f"{what}: not within {PATIENCE_S:g} s\n{self.logs()}")

    def log_of(self, app_id: str) -> str:
        return self.ok("task", "log", app_id)

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
            for path in sorted((self.work_dir / "log").glob("*.log"))
        )


def leftovers(work_dir: Path) -> list[str]:
    """Return what still exists of a box: processes, mounts, cgroups, its runtime directory."""
    mark, cgroup_mark = str(work_dir), f"mesos-{box_id(work_dir)}-"
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if (mark in command or cgroup_mark in command) and int(process.name) != os.getpid():
            left.append(f"process {process.name}: {command}")
    left += [f"mount: {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]
    left += [
        f"cgroup: {path}"
        for pattern in (f"{cgroup_mark}*", f"*/{cgroup_mark}*")
        for path in Path("/sys/fs/cgroup").glob(pattern)
    ]
    bridge = Path("/sys/class/net", bridge_name(box_id(work_dir)))
    if bridge.exists():
        left.append(f"bridge: {bridge} with {sorted(path.name for path in (bridge / 'brif').iterdir())}")
    if runtime_dir(work_dir).exists():
        left.append(f"directory: {runtime_dir(work_dir)}")
    return left


@pytest.fixture
def new_box(tmp_path: Path) -> Iterator[LiveBox]:
    """A box that is not up yet; whatever became of it, nothing of it is left afterwards."""
    box = LiveBox(tmp_path / "box")
    nodes = set(Path("/dev").glob("nvidia*"))
    yield box
    if (box.work_dir / "box.json").exists():
        done = box.cli("down")
        assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    assert leftovers(box.work_dir) == []
    assert set(Path("/dev").glob("nvidia*")) == nodes


@pytest.fixture
def box(new_box: LiveBox) -> LiveBox:
    """A box that is up, with 4 simulated GPUs."""
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    return new_box
