"""Each file that a box keeps, damaged in each way while nothing of it runs but the tasks.

What comes up on it has as many tasks as there were, each once, and their GPUs; or it says which file it is, and comes
up when that is whole again. No service tells of it in a traceback. A few files and ways in CI, by chance (DAMAGE_SEED);
HYPOTHESIS_PROFILE=deep: all of them.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from mesos_gpu.local.plan import runtime_dir
from tests.support.box.live import LiveBox, nothing_left
from tests.support.box.versions import die
from tests.support.images.build import busybox_image, save_archive

pytestmark = [pytest.mark.root, pytest.mark.timeout(5400)]

WAYS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "emptied": lambda _: b"",
    "garbage": lambda whole: bytes(byte ^ 0xA5 for byte in whole) or b"\xa5\xff\x00",
    "another type": lambda whole: b"[7]" if whole.lstrip()[:1] == b"{" else b'{"seven": 7}',
}
KINDS = (
    *("agent1/meta/boot_id", "agent1/meta/resources/*.state", "agent1/meta/**/slave.info"),
    *(f"agent1/meta/**/{name}" for name in ("framework.info", "executor.info", "http.marker", "forked.pid")),
    *("agent1/meta/**/task.info", "agent1/meta/**/task.updates"),
    *(f"agent1/store/docker/{name}" for name in ("images/*.json", "layers/*/layer.json", "uses/*.json")),
    *("box.json", "ports.json", "run/*.json", "master/registry.json", "networks/*"),
    "marathon/marathon.db",
    *(f"RUN/agent1/bundles/*/{name}" for name in ("config.json", "pid", "state/*/config.json", "state/*/status")),
    *("RUN/agent1/containers/*.json", "RUN/agent1/gpus/*/*.json"),
    *("RUN/agent1/volumes/*/gpus", "RUN/agent1/volumes/*/links"),
)
"""Files of a box by what they are for; those of tasks, of images and of logs are not its state.

Of the database's write-ahead log see `OF_THE_LOG`.
"""
OF_THE_LOG = ("marathon/marathon.db-wal",)
"""Cut off or emptied it looks as a power failure leaves it: SQLite takes what is gone for what was never written."""
ALL = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
IN_CI = 3
RESOURCES = {"cpus": 0.1, "mem": 32}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    with nothing_left(stage.box):
        stage.up()
        yield stage


class Stage:
    """A box with an app, one with an image and a volume, and a pod; each has a process of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "images").mkdir()
        save_archive(folder / "images" / "small.tar", busybox_image(), "small:latest")
        self.box = LiveBox(folder / "box")
        self.box.env["MESOS_EXECUTOR_REREGISTRATION_TIMEOUT"] = "15secs"  # 2 s are few on a busy machine
        self.flags = ("--gpu_driver=simulated", "--simulated_gpus=4", f"--docker_registry={folder / 'images'}")
        self.mark = str(10_000_000 + os.getpid())

    def up(self) -> None:
        self.box.up(*self.flags)
        run = f"exec sleep {self.mark}"
        volume = {"containerPath": "data", "mode": "RW", "persistent": {"size": 8}}
        there = {"type": "MESOS", "docker": {"image": "small"}, "volumes": [volume]}
        container = {"name": "one", "exec": {"command": {"shell": run}}, "resources": RESOURCES}
        backoff = {"backoffSeconds": 1, "maxLaunchDelaySeconds": 2}
        self.box.add({"id": "gpu", "cmd": run, "gpus": 1, **RESOURCES, **backoff})
        self.box.add({"id": "kept", "cmd": run, "gpus": 1, **RESOURCES, **backoff, "container": there})
        pod = {"id": "/pod", "containers": [container], "scaling": {"kind": "fixed", "instances": 1}}
        self.box.ok("pod", "add", "-", "--wait", text=json.dumps(pod))
        self.whole()

    def processes(self) -> int:
        """Return how many tasks have a process."""
        found, mark = 0, b"sleep\0" + self.mark.encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += path.read_bytes().startswith(mark)
            except OSError:
                continue
        return found

    def whole(self) -> None:
        """Wait until all is as it was: three tasks, each once, two GPUs in their hands."""
        box = self.box

        def is_whole() -> bool:
            states = sorted(task["state"] for task in json.loads(box.ok("task", "list", "-o", "json")))
            return states == ["TASK_RUNNING"] * 3 and self.processes() == 3 and box.gpus_free() == 2

        box.until("three tasks run, each once, and two GPUs are free", is_whole)

    def file(self, kind: str, dice: random.Random) -> Path | None:
        root = runtime_dir(self.box.work_dir) if kind.startswith("RUN/") else self.box.work_dir
        found = [path for path in root.glob(kind.removeprefix("RUN/")) if path.is_file() and not path.is_symlink()]
        found = [path for path in found if "latest" not in path.parts]
        return dice.choice(sorted(found)) if found else None

    def damage(self, kind: str, way: str, dice: random.Random) -> str:
        """Damage a file of a kind in a way while the services are away, and see that they come back; say how."""
        die(self.box)
        path = self.file(kind, dice)
        if path is None:
            self.box.up(*self.flags)
            return "there is none"
        logs = {log: log.stat().st_size for log in (self.box.work_dir / "log").glob("*.log")}
        before = path.read_bytes()
        path.write_bytes(WAYS[way](before))
        ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
        done = self.box.cli("up", "--detach", "--open", *ports, *self.flags)
        said = done.stderr + self._said(logs)
        assert "Traceback" not in said, said
        if done.returncode != 0:
            assert path.name in said, said
            path.write_bytes(before)
            self.box.up(*self.flags)
        self.whole()
        said += self._said(logs)
        assert "Traceback" not in said, said
        return "refused" if done.returncode else "up" + ("" if path.name in said else ", nothing said")

    def _said(self, logs: dict[Path, int]) -> str:
        """Return what was logged since."""
        found = {log: log.read_text(errors="replace") for log in (self.box.work_dir / "log").glob("*.log")}
        return "\n".join(text[logs.get(log, 0) :] for log, text in found.items())


def test_what_is_damaged_is_made_anew_or_named(stage: Stage) -> None:
    seed = int(os.environ.get("DAMAGE_SEED", random.randrange(1 << 30)))
    dice = random.Random(seed)
    print(f"DAMAGE_SEED={seed}")
    chosen = sorted([*product(KINDS, WAYS), *product(OF_THE_LOG, ("garbage", "another type"))])
    only = re.compile(os.environ.get("DAMAGE", ""))
    chosen = [one for one in chosen if only.search(" ".join(one))]
    for kind, way in chosen if ALL else dice.sample(chosen, min(IN_CI, len(chosen))):
        print(f"{kind}, {way}:", end=" ", flush=True)
        print(stage.damage(kind, way, dice), flush=True)
