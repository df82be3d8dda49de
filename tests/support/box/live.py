"""A whole box for tests: real services, real containers, and what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu import local
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.local.bridge import bridge_name
from mesos_gpu.local.plan import box_id, runtime_dir
from mesos_gpu.local.record import Records
from tests.support.box.sweeping import cgroups_of, processes_of, sweep
from tests.support.patience import TIMES

PATIENCE_S = 60.0 * TIMES


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

    def up(self, *flags: str, asks: bool = False) -> str:
        """Bring it up on free ports. Unless it `asks` for its credential it is open: tests speak to it in many ways."""
        ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
        return self.ok("up", "--detach", *ports, *(() if asks else ("--open",)), *flags)

    def status(self) -> dict[str, Any]:
        """Return what `mesos-gpu status --json` shows, without a process for each look."""
        return local.status(self.work_dir)

    def add(self, app: dict[str, Any]) -> str:
        return self.ok("app", "add", "-", "--wait", text=json.dumps(app))

    def tasks(self, app_id: str) -> list[dict[str, Any]]:
        return self.marathon(f"/v2/apps/{app_id}/tasks")["tasks"]  # type: ignore[no-any-return]

    def marathon(self, path: str) -> Any:
        box = Records(self.work_dir).read()
        assert box is not None
        return requests.get(box.marathon.url + path, timeout=60).json()

    def gpus_free(self) -> int:
        return sum(agent["gpus_free"] or 0 for agent in self.status()["agents"])

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until something holds; what the services logged is in the failure."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except (
                requests.RequestException,
                MesosGpuError,
                ValueError,
                LookupError,
                TypeError,
                AssertionError,
                OSError,
            ):
                pass  # a service that is being restarted does not answer, and a file that was listed may be gone
            time.sleep(0.1)
        pytest.fail(f"{what}: not within {PATIENCE_S:g} s\n{self.logs()}")

    def log_of(self, app_id: str) -> str:
        return self.ok("task", "log", app_id)

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
            for path in sorted((self.work_dir / "log").glob("*.log"))
        )


@contextmanager
def live_box(work_dir: Path, *flags: str) -> Iterator[LiveBox]:
    """Bring a box up with these flags, and down in the end, however that comes."""
    made = LiveBox(work_dir)
    try:
        made.up(*flags)
        yield made
    finally:
        made.cli("down")


@contextmanager
def nothing_left(box: LiveBox) -> Iterator[LiveBox]:
    """Bring a box down in the end, if it is up then. What is left of it is an error, and is ended all the same."""
    try:
        yield box
        if (box.work_dir / "box.json").exists():
            done = box.cli("down")
            assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    finally:
        left = leftovers(box.work_dir)
        if left:
            sweep(box.work_dir)
    assert left == [], "\n".join(left)


PLAYER, PLAYS_ON_S = "mesos_gpu/simulated/__main__.py", 8.0


def leftovers(work_dir: Path) -> list[str]:
    """Return what still exists of a box: processes, mounts, cgroups, its runtime directory.

    The program that plays its GPUs ends by itself a few seconds after the agent and the last task; it is waited for.
    """
    end = time.monotonic() + PLAYS_ON_S
    left = _leftovers(work_dir)
    while any(PLAYER in line for line in left) and time.monotonic() < end:
        time.sleep(0.1)
        left = _leftovers(work_dir)
    return left


def _leftovers(work_dir: Path) -> list[str]:
    left = [f"process {pid}: {command}" for pid, command in processes_of(work_dir)]
    left += [f"mount: {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if str(work_dir) in line]
    left += [f"cgroup: {path}" for path in cgroups_of(work_dir)]
    bridge = Path("/sys/class/net", bridge_name(box_id(work_dir)))
    if bridge.exists():
        left.append(f"bridge: {bridge} with {sorted(path.name for path in (bridge / 'brif').iterdir())}")
    if runtime_dir(work_dir).exists():
        left.append(f"directory: {runtime_dir(work_dir)}")
    return left


class Standing:
    """A box that several tests use one after another; it comes up for the first, and again after one that broke it."""

    def __init__(self, work_dir: Path, *flags: str) -> None:
        self._work_dir, self._flags = work_dir, flags
        self._made = 0
        self._box: LiveBox | None = None

    def box(self) -> LiveBox:
        """Return it, up, with 4 simulated GPUs."""
        if self._box is None:
            self._made += 1
            self._box = LiveBox(self._work_dir / str(self._made))
            self._box.up("--gpu_driver=simulated", "--simulated_gpus=4", *self._flags)
        return self._box

    def clean(self) -> None:
        """Remove what a test left; a box that does not become clean is no box for the next test, and an error."""
        box = self.box()
        try:
            there = [f"/v2/apps{app['id']}" for app in box.marathon("/v2/apps")["apps"]]
            there += [f"/v2/pods{pod['id']}" for pod in box.marathon("/v2/pods")]
            for path in there:
                url = f"{box.status()['marathon']['url']}{path}?force=true"
                requests.delete(url, timeout=PATIENCE_S).raise_for_status()
            box.until("no task is left", lambda: not box.marathon("/v2/tasks")["tasks"])
            box.until("all GPUs are free", lambda: box.gpus_free() == 4)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End it; nothing of it is left."""
        if self._box is not None:
            box, self._box = self._box, None
            with nothing_left(box):
                pass
