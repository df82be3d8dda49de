"""What earlier builds wrote, a box on it, and today's files made into theirs."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mesos_gpu.local.forking.ports import port_for
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import Records
from tests.support.box.live import LiveBox

RECORDED = Path(__file__).parents[2] / "versions"
PLACE, AGENTS_PORTS = b"/srv/recorded", (b"37863", b"39101")
MORE = {"written_by_a_later_version": {"unknown": ["to", "us"]}}
Shapes = dict[str, dict[str, set[str]]]
"""For each kind of file the keys that its objects have, by their place in it."""
Change = Callable[[str, Any], Any]


def unpacked(name: str, folder: Path, instead: Path) -> Path:
    """Unpack what a build wrote, as if it had been at another place, and at a port that nobody is lent meanwhile."""
    port = b"%d" % port_for(0)
    with tarfile.open(RECORDED / name) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".db":
            text = path.read_bytes().replace(PLACE, os.fsencode(instead))
            for recorded in AGENTS_PORTS:
                text = text.replace(recorded, port)
            path.write_bytes(text)
    return folder


def files(work_dir: Path, runtime: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of state that are JSON, each with its kind."""
    yield "registry", work_dir / "master" / "registry.json"
    yield "box", work_dir / "box.json"
    for name in ("slave.info", "framework.info", "executor.info", "task.info"):
        for path in sorted((work_dir / "agent1" / "meta").rglob(name)):
            if "latest" not in path.relative_to(work_dir).parts:
                yield name, path
    for name in ("containers", "gpus"):
        for path in sorted((runtime / "agent1" / name).glob("*.json")):
            yield name, path


def rows(work_dir: Path) -> list[tuple[str, int, Any]]:
    """Return Marathon's documents: kind, number, content."""
    with sqlite3.connect(work_dir / "marathon" / "marathon.db") as database:
        found = database.execute("SELECT kind, rowid, document FROM documents").fetchall()
    database.close()
    return [(kind, number, json.loads(document)) for kind, number, document in found]


def learn(document: Any, place: str, keys: dict[str, set[str]]) -> None:
    if isinstance(document, dict):
        keys[place] |= document.keys()
        for key, value in document.items():
            learn(value, f"{place}/{key}", keys)
    elif isinstance(document, list):
        for value in document:
            learn(value, place, keys)


def shapes_of(folder: Path) -> Shapes:
    """Return what a build had written."""
    found: Shapes = defaultdict(lambda: defaultdict(set))
    for kind, path in files(folder, folder / "runtime"):
        learn(json.loads(path.read_bytes()), "", found[kind])
    for kind, _, document in rows(folder):
        learn(document, "", found[kind])
    return found


def cut_back(document: Any, place: str, keys: dict[str, set[str]]) -> Any:
    """Return a document with no key that the build did not write there."""
    if isinstance(document, dict):
        known = keys.get(place, set())
        return {key: cut_back(value, f"{place}/{key}", keys) for key, value in document.items() if key in known}
    if isinstance(document, list):
        return [cut_back(value, place, keys) for value in document]
    return document


def as_of(shapes: Shapes) -> Change:
    """Return what makes of a document the one that this build would have written; other kinds it leaves alone."""
    return lambda kind, document: cut_back(document, "", shapes[kind]) if kind in shapes else document


def rewrite(work_dir: Path, change: Change) -> int:
    """Change every document of the state; return how many are other than before."""
    changed = 0
    for kind, path in files(work_dir, runtime_dir(work_dir)):
        before = json.loads(path.read_bytes())
        after = change(kind, before)
        changed += after != before
        path.write_text(json.dumps(after))
    for kind, number, before in rows(work_dir):
        after = change(kind, before)
        changed += after != before
        with sqlite3.connect(work_dir / "marathon" / "marathon.db") as database:
            database.execute("UPDATE documents SET document = ? WHERE rowid = ?", (json.dumps(after).encode(), number))
        database.close()
    return changed


def up(box: LiveBox) -> None:
    box.up("--gpu_driver=simulated", "--simulated_gpus=4")


def die(box: LiveBox) -> None:
    """Kill supervisor and services at once; tasks run on."""
    noted = Records(box.work_dir).read()
    assert noted is not None
    for pid in (noted.pid, *(service.pid for service in noted.services().values())):
        with suppress(ProcessLookupError):  # a service ends with its supervisor
            os.kill(pid, signal.SIGKILL)
    box.until("the services have ended", lambda: box.cli("status").returncode == 1)


def running(box: LiveBox) -> dict[str, int]:
    """Return the tasks that run, by id, with the process of each."""
    listed = json.loads(box.ok("task", "list", "-o", "json"))
    known = [task["id"] for task in listed if task["state"] == "TASK_RUNNING"]
    containers = {}
    for path in sorted((runtime_dir(box.work_dir) / "agent1" / "containers").glob("*.json")):
        record = json.loads(path.read_bytes())
        containers[str(record["sandbox"])] = record["pid"]
    # A pod's task runs in a container nested in its executor's, whose folder has the instance's name.
    folders = {task: task.rpartition(".")[0].rpartition(".")[0] for task in known}
    return {
        task: pid
        for task in known
        for sandbox, pid in containers.items()
        if f"/{task}/" in sandbox or (folders[task].startswith("group_pod") and "/containers/" in sandbox)
    }


@contextmanager
def a_later_format(work_dir: Path) -> Iterator[tuple[int, int]]:
    """Have Marathon's database be one of a later version, which says so; yields that format and ours."""

    def write(number: int) -> int:
        database = sqlite3.connect(work_dir / "marathon" / "marathon.db")
        (before,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {number}")
        database.commit()
        database.close()
        return int(before)

    ours = write(1000)
    yield 1000, ours
    write(ours)
