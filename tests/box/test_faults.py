"""A box in which something breaks at random moments, again and again, while tasks and pods start and end.

What is broken is healed again, and then all has to be as it should by itself: every app has its tasks, each runs once,
and no GPU is in two hands. Some seconds in CI; HYPOTHESIS_PROFILE=deep: twenty times that, and no service may have told
of it in a traceback. FAULTS_SEED repeats a run as far as clocks let it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu.agent.running.default_executor import PROGRAM
from tests.support.faults import Faults
from tests.support.histories import PROFILES

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
BREAKING_S = 6.0 * PROFILES.get(os.environ.get("HYPOTHESIS_PROFILE", "ci"), 1.0)
HEALED_S = 90.0
SERVICES = ("master", "agent", "marathon")
EXECUTOR = "executor"
"""The default executor of a pod, in its container; it writes nothing, and its clock is the machine's."""
APP = {"cmd": "exec sleep 1000", "cpus": 0.05, "mem": 32, "gpus": 1, "backoffSeconds": 1, "maxLaunchDelaySeconds": 2}
JOBS = {"cmd": "sleep 0.2", "cpus": 0.05, "mem": 32, "backoffSeconds": 1, "maxLaunchDelaySeconds": 2}
POD = {
    "id": "/pod",
    "containers": [
        {"name": "one", "exec": {"command": {"shell": "exec sleep 1000"}}, "resources": {"cpus": 0.05, "mem": 32}}
    ],
    "scaling": {"kind": "fixed", "instances": 1},
    "scheduling": {"backoff": {"backoff": 1, "maxLaunchDelay": 2}},
}
EXECUTOR_PROGRAM = os.fsencode(PROGRAM)
MIB = 1 << 20


class Stage:
    """A box under `mesos-gpu up`, and what can befall its services."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.faults = folder / "box", Faults(folder)
        self._command = [sys.executable, "-m", "marathon_cli"]
        ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
        where = (f"--work_dir={self.folder}", "--gpu_driver=simulated", "--simulated_gpus=4")
        up = [*self._command, "up", "--detach", *where, *ports]
        subprocess.run(up, check=True, env={**os.environ, **self.faults.environment}, stdout=subprocess.DEVNULL)
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.auth = tuple((self.folder / "access" / "login").read_text().strip().split(":", 1))  # type: ignore[assignment]

    def read(self, service: str) -> dict[str, Any]:
        document = json.loads((self.folder / "box.json").read_bytes())
        found: dict[str, Any] = document["agents"][0] if service == "agent" else document[service]
        return found

    def pid(self, service: str) -> int:
        """Return the process of a service. Raises FileNotFoundError while there is none."""
        if service != EXECUTOR:
            return int(self.read(service)["pid"])
        for process in Path("/proc").iterdir():
            try:
                ours = process.name.isdecimal() and Path(process / "cwd").readlink().is_relative_to(self.folder)
                words = (process / "cmdline").read_bytes().split(b"\0")
                if ours and words[0] == os.fsencode(sys.executable) and EXECUTOR_PROGRAM in words:
                    return int(process.name)
            except OSError:
                continue
        raise FileNotFoundError("no executor")

    def ask(self, service: str, path: str, method: str = "GET", **more: Any) -> Any:
        """Return an answer's JSON, None for none: what is broken need not answer."""
        try:
            answer = self.http.request(method, f"{self.read(service)['url']}{path}", timeout=5, **more)
            return answer.json() if answer.ok else None
        except (requests.RequestException, ValueError, OSError):
            return None

    def down(self) -> None:
        self.faults.heal()
        subprocess.run([*self._command, "down", f"--work_dir={self.folder}"], check=False, stdout=subprocess.DEVNULL)

    # What befalls it; each returns how it is healed.

    def disk(self, service: str, dice: random.Random) -> Callable[[], None]:
        number = dice.choice([errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOMEM])
        self.faults.fail(f"mesos_gpu.{service}.service", number, dice.choice([1, 2, 5]))
        return self.faults.heal

    def stopped(self, service: str, _: random.Random) -> Callable[[], None]:
        pid = self.pid(service)
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def killed(self, service: str, _: random.Random) -> Callable[[], None]:
        os.kill(self.pid(service), signal.SIGKILL)
        return lambda: None

    def descriptors(self, service: str, dice: random.Random) -> Callable[[], None]:
        pid = self.pid(service)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_ = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_ + dice.randint(0, 3), before[1]))

        def heal() -> None:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

        return heal

    def memory(self, service: str, dice: random.Random) -> Callable[[], None]:
        """Leave a service the memory that it has, and hardly more: what it asks for is refused."""
        pid = self.pid(service)
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        has = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (has + dice.choice([0, 1, 8]) * MIB, before[1]))
        return lambda: resource.prlimit(pid, resource.RLIMIT_AS, before)

    def clock(self, service: str, dice: random.Random) -> Callable[[], None]:
        """Set a service's clock forward or back, and right again: two jumps."""
        self.faults.shift(f"mesos_gpu.{service}.service", dice.choice([-1, 1]) * dice.choice([2, 3600, 86400 * 3650]))
        return self.faults.heal


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.down()


def test_what_breaks_at_random_moments_heals_by_itself(stage: Stage) -> None:
    seed = int(os.environ.get("FAULTS_SEED", random.randrange(1 << 30)))
    dice, befell = random.Random(seed), Counter[str]()
    print(f"FAULTS_SEED={seed}")
    for app in ({"id": "/gpu", "instances": 2, **APP}, {"id": "/short", "instances": 1, **JOBS}):
        _eventually(lambda app=app: stage.ask("marathon", "/v2/apps", "POST", json=app) is not None)  # type: ignore[misc]
    _eventually(lambda: stage.ask("marathon", "/v2/pods", "POST", json=POD) is not None)
    end = time.monotonic() + BREAKING_S
    while time.monotonic() < end:
        service = dice.choice((*SERVICES, EXECUTOR))
        anywhere = [stage.stopped, stage.killed, stage.descriptors, stage.memory]
        what = dice.choice(anywhere if service == EXECUTOR else [*anywhere, stage.disk, stage.disk, stage.clock])
        try:
            heal = what(service, dice)
        except (ProcessLookupError, PermissionError, FileNotFoundError):
            continue  # it has just ended, and is about to be started again
        befell[f"{what.__name__} {service}"] += 1
        stage.ask("marathon", "/v2/apps//gpu?force=true", "PUT", json={"instances": dice.randint(0, 4)})
        time.sleep(dice.uniform(0.05, 0.8))
        try:
            heal()
        except ProcessLookupError:
            pass
    stage.faults.heal()
    wanted = 3
    _eventually(
        lambda: stage.ask("marathon", "/v2/apps//gpu?force=true", "PUT", json={"instances": wanted}) is not None
    )
    try:
        _eventually(lambda: _is_well(stage, wanted))
    except AssertionError:
        raise AssertionError(f"FAULTS_SEED={seed} {dict(befell)}: {_told(stage)}") from None
    logs = "".join(path.read_text(errors="replace") for path in sorted((stage.folder / "log").glob("*.log*")))
    if DEEP:
        logs = "".join(path.read_text(errors="replace") for path in sorted((stage.folder / "log").glob("*.log*")))
        at = logs.find("Traceback")
        assert at < 0, f"FAULTS_SEED={seed} {dict(befell)}\n{logs[max(0, at - 500) : at + 4000]}"


def _eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + HEALED_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def _is_well(stage: Stage, wanted: int) -> bool:
    """Return whether Marathon, master and agent know the same `wanted` tasks, each once, with a GPU of its own."""
    tasks = stage.ask("marathon", "/v2/apps//gpu/tasks")
    state, containers = stage.ask("master", "/state"), stage.ask("agent", "/containers")
    gpus, pod = stage.ask("agent", "/gpus"), stage.ask("marathon", "/v2/pods//pod::status")
    if None in (tasks, state, containers, gpus, pod) or stage.ask("marathon", "/v2/deployments"):
        return False
    running = {task["id"] for task in tasks["tasks"] if task["state"] == "TASK_RUNNING"}
    booked = [
        task["id"]
        for framework in state["frameworks"]
        for task in framework["tasks"]
        if task["name"] == "gpu" and task["state"] == "TASK_RUNNING"
    ]
    live = [one["executor_id"] for one in containers if one["executor_id"].startswith("gpu.")]
    if pod["status"] != "STABLE" or len(pod["instances"]) != 1:
        return False
    held = [gpu["container_id"] for gpu in gpus if gpu.get("container_id")]
    return (
        len(running) == wanted == len(booked) == len(live)
        and running == set(booked) == set(live)
        and len(held) == wanted
    )


def _told(stage: Stage) -> str:
    seen = {path: stage.ask(service, path) for service, path in (("marathon", "/v2/apps//gpu"), ("agent", "/gpus"))}
    logs = [path.read_text(errors="replace")[-1500:] for path in sorted((stage.folder / "log").glob("*.log"))]
    return json.dumps(seen)[:3000] + "\n" + "\n---\n".join(logs)
