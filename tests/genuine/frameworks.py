"""Frameworks over genuine drivers of the v0 API, as processes: libmesos' own, of any release, and pesos."""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from tests.genuine.python2_packages import PESOS, PROGRAMS, installed, interface, python2
from tests.genuine.releases import Release

PATIENCE_S = 60.0
_KINDS = {
    "registered": ("FrameworkID", "MasterInfo"),
    "reregistered": ("MasterInfo",),
    "resourceOffers": ("Offer",),
    "offerRescinded": ("OfferID",),
    "statusUpdate": ("TaskStatus",),
    "frameworkMessage": ("ExecutorID", "SlaveID", ""),
    "slaveLost": ("SlaveID",),
    "executorLost": ("ExecutorID", "SlaveID", ""),
    "error": ("",),
}


MakeFramework: TypeAlias = Callable[..., "Framework"]
"""Makes a program with drivers of a release of Mesos, such as 1.11.0, or of `pesos`, and further variables for it."""


class Framework:
    """A program with drivers, each of a name; what a driver calls is kept until somebody waits for it."""

    def __init__(self, release: Release | None, log: Path, variables: Mapping[str, str]) -> None:
        """`release` is whose driver it is; None: pesos. Raises Missing."""
        if release is None:
            words, packages, environment = (
                ["pesos"],
                installed(*PESOS),
                {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
            )
        else:
            words, packages = ["genuine", str(release.library)], installed(*interface(release.version))
            environment = dict(release.environment)
        environment |= {"PYTHONPATH": str(packages), "LIBPROCESS_IP": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [python2(), str(PROGRAMS / "framework.py"), *words],
                env={"PATH": "/usr/bin:/bin", **environment, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self._log = log
        self._lines: queue.Queue[Document | None] = queue.Queue()
        self._waiting: dict[str, list[tuple[str, list[Any]]]] = {}
        threading.Thread(target=self._read, daemon=True).start()
        assert self._line() == {"ready": True}, log.read_text()

    def close(self) -> None:
        """End the program, as kill -9 does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def start(self, driver: str, info: Document, master: str, credential: Document | None = None) -> None:
        """Start a driver."""
        shown = None if credential is None else _text("Credential", credential)
        self.call(driver, "start", _text("FrameworkInfo", info), master, shown)

    def call(self, driver: str, call: str, *arguments: Any) -> None:
        """Make a call of a driver, under its own name and with ids as text."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"driver": driver, "call": call, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def launch(self, driver: str, offers: Iterable[Document], *tasks: Document, refuse_s: float = 0.1) -> None:
        ids = [offer["id"]["value"] for offer in offers]
        self.call(driver, "launchTasks", ids, [_text("TaskInfo", task) for task in tasks], refuse_s)

    def reconcile(self, driver: str, *task_ids: str) -> None:
        asked = [{"task_id": {"value": task_id}, "state": "TASK_RUNNING"} for task_id in task_ids]
        self.call(driver, "reconcileTasks", [_text("TaskStatus", status) for status in asked])

    def expect(self, driver: str, callback: str, *, skip: Iterable[str] = ()) -> list[Any]:
        """Return the arguments of the next callback of a driver, which is this one; those in `skip` are passed over."""
        while True:
            found, arguments = self._next(driver)
            if found == callback:
                return arguments
            assert found in skip, f"{found} {arguments} came before {callback}\n{self._log.read_text()}"

    def status(self, driver: str, skip: Iterable[str] = ("resourceOffers", "offerRescinded")) -> Document:
        """Return the next status that a driver is told."""
        (status,) = self.expect(driver, "statusUpdate", skip=skip)
        return status  # type: ignore[no-any-return]

    def _next(self, driver: str) -> tuple[str, list[Any]]:
        waiting = self._waiting.setdefault(driver, [])
        while not waiting:
            line = self._line()
            self._waiting.setdefault(line["driver"], []).append((line["callback"], _arguments(line)))
        return waiting.pop(0)

    def _line(self) -> Document:
        try:
            line = self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"the framework says nothing\n{self._log.read_text()}") from None
        assert line is not None, f"the framework's program ended\n{self._log.read_text()}"
        return line

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._lines.put(json.loads(line))
        except ValueError:  # closed
            pass
        self._lines.put(None)


def _arguments(line: Document) -> list[Any]:
    kinds = _KINDS.get(line["callback"], ())
    kinds = kinds * len(line["arguments"]) if line["callback"] == "resourceOffers" else kinds
    return [
        decode(f"mesos.{kind}", base64.b64decode(argument)) if kind else argument
        for kind, argument in zip(kinds, line["arguments"], strict=True)
    ]


def _text(kind: str, document: Document) -> str:
    return base64.b64encode(encode(f"mesos.{kind}", document)).decode("ascii")
