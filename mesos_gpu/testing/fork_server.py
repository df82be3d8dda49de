"""The process that the services of test boxes are forked from.

What takes time when a service starts is Python reading its modules: here that is done once, and a service is a fork of
this process. From then on it is the service and nothing else: a process of its own, with its own sockets and files,
that meets the others over HTTP and libprocess. A box of a master and two agents is up in 0.15 s that way.

It also outlives its owner, the process that runs the tests, for just as long as it takes to end everything: services,
tasks, cgroups. It has no threads, as a process that forks should not.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.errors import Conflict, MesosGpuError, NotFound, Unavailable
from mesos_gpu.local.forking.forked import SERVICES, fork_service, preload
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.testing.plan import Program, cgroups_prefix

PRELOADED = SERVICES[:2]
"""Few boxes of tests have a Marathon: it is read when the first one does."""
STOP_S, AGENT_STOP_S, SWEEP_S = 15.0, 45.0, 10.0
_POLL_S = 0.003
END_TASKS = signal.SIGUSR1
"""Tells an agent to end its tasks and leave; SIGTERM would let them run on."""


@dataclass(slots=True)
class Child:
    """A forked service. Its pid is not reused before `poll` has seen its end."""

    program: Program
    pid: int
    status: int | None = None
    ready: dict[str, Any] | None = None

    def poll(self) -> int | None:
        """Return the exit status (minus the signal that ended it), None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait(self, timeout_s: float) -> int | None:
        """Return what `poll` does, after at most so long."""
        watch = os.pidfd_open(self.pid) if self.poll() is None else None
        if watch is not None:
            select.select([watch], [], [], timeout_s)
            os.close(watch)
        return self.poll()

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def stop(self, number: int, grace_s: float) -> None:
        """End it with a signal; see `until_ended`."""
        self.signal(number)
        self.until_ended(grace_s)

    def until_ended(self, grace_s: float) -> None:
        """Wait for its end, and bring it about with SIGKILL after `grace_s`."""
        if self.wait(grace_s) is None:
            print(f"{self.program.name} did not stop within {grace_s:g} s; killing it", file=sys.stderr, flush=True)
            self.signal(signal.SIGKILL)
            self.wait(grace_s)

    @property
    def is_agent(self) -> bool:
        """Return whether it may have tasks."""
        return self.program.name.startswith("agent")


@dataclass(slots=True)
class ForkedServices:
    """The services of one box."""

    work_dir: Path
    children: dict[str, Child] = field(default_factory=dict)

    def start(self, program: Program) -> int:
        """Fork a service and return its pid. Raises Conflict when it runs already."""
        before = self.children.get(program.name)
        if before is not None and before.poll() is None:
            raise Conflict(f"{program.name} is running")
        Path(program.ready_file).unlink(missing_ok=True)
        # Should the fork server be killed, its services end all the same.
        end = END_TASKS if program.name.startswith("agent") else signal.SIGTERM
        log = os.open(program.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            pid = fork_service(program.module, program.argv(), name=program.name, log=log, end=end)
        finally:
            os.close(log)
        self.children[program.name] = Child(program, pid)
        return pid

    def until_ready(self, name: str, timeout_s: float) -> dict[str, Any]:
        """Return what a service wrote to its ready file. Raises Unavailable with its last words when it did not."""
        child, end = self.child(name), monotonic() + timeout_s
        file = Path(child.program.ready_file)
        while not file.exists():
            if child.poll() is not None:
                raise Unavailable(f"{name} did not start: {_last_line(child.program)}")
            if monotonic() > end:
                raise Unavailable(f"{name} was not ready after {timeout_s:g} s; its log: {child.program.log_file}")
            sleep(_POLL_S)
        ready: dict[str, Any] = json.loads(file.read_bytes())
        # The others know it by its port, and an agent's executors do.
        child.program = replace(child.program, port=int(ready["url"].rpartition(":")[2]))
        child.ready = ready
        return ready

    def child(self, name: str) -> Child:
        """Return a service by name. Raises NotFound."""
        if name not in self.children:
            raise NotFound(f"there is no {name} in this box")
        return self.children[name]

    def end(self) -> list[str]:
        """End services and tasks, and return what could not be taken away.

        The scheduler goes first, so that it does not replace tasks; the agents end theirs; the master sees it all.
        """
        for child in self.children.values():
            child.signal(signal.SIGCONT)
        agents = [child for child in self.children.values() if child.is_agent]
        others = [child for child in self.children.values() if not child.is_agent]
        for child in others[::-1]:
            if child.program.name != "master":
                child.stop(signal.SIGTERM, STOP_S)
        self._take_back_tasks(agents)
        agents = [child for child in self.children.values() if child.is_agent]
        for child in agents:
            child.signal(END_TASKS)
        for child in agents:
            child.until_ended(AGENT_STOP_S)
        if "master" in self.children:
            self.children["master"].stop(signal.SIGTERM, STOP_S)
        left = sweep(self.work_dir)
        shutil.rmtree(runtime_dir(self.work_dir), ignore_errors=True)
        with suppress(OSError):  # boxes of other runs are there
            runtime_dir(self.work_dir).parent.rmdir()
        return left

    def _take_back_tasks(self, agents: list[Child]) -> None:
        """Start agents again that were killed and left tasks behind: who knows best how to end them is the agent."""
        orphans = [child for child in agents if child.poll() is not None and self._has_containers(child.program.name)]
        if not orphans:
            return
        master = self.child("master")
        try:
            if master.poll() is not None:
                self.start(master.program)
                self.until_ready("master", STOP_S)
            for child in orphans:
                self.start(child.program)
            for child in orphans:
                self.until_ready(child.program.name, STOP_S)
        except (MesosGpuError, OSError) as error:
            print(f"could not take tasks back: {error}", file=sys.stderr, flush=True)

    def _has_containers(self, agent: str) -> bool:
        return any((runtime_dir(self.work_dir) / agent / "bundles").glob("*"))


class ForkServer:
    """Answers its owner until that one closes the channel or dies; then ends what is left."""

    def __init__(self, channel: socket.socket, owner: int) -> None:
        self._channel, self._owner = channel, owner
        self._broods: dict[str, ForkedServices] = {}

    def serve(self) -> int:
        """Answer requests, a line of JSON each; return the exit status once all is ended."""
        try:
            for line in self._requests():
                try:
                    answer: Mapping[str, Any] = {"ok": self._perform(json.loads(line))}
                except MesosGpuError as error:
                    answer = {"error": type(error).__name__, "message": str(error)}
                except Exception:
                    answer = {"error": "Unavailable", "message": traceback.format_exc()}
                with suppress(OSError):
                    self._channel.sendall(json.dumps(answer).encode() + b"\n")
        finally:
            left = [what for work_dir in list(self._broods) for what in self._end(work_dir)]
        for what in left:
            print(f"left behind: {what}", file=sys.stderr, flush=True)
        return 1 if left else 0

    def _requests(self) -> Iterator[bytes]:
        buffer = b""
        channel = self._channel.fileno()
        while True:
            readable, _, _ = select.select([channel, self._owner], [], [])
            if channel not in readable:
                return
            try:
                data = self._channel.recv(65536)
            except OSError:
                return
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            yield from lines

    def _perform(self, request: dict[str, Any]) -> Any:
        work_dir = request["box"]
        brood = self._broods.setdefault(work_dir, ForkedServices(Path(work_dir)))
        match request["do"]:
            case "start":
                given = request["program"]
                return brood.start(Program(**{**given, "flags": tuple(given["flags"])}))
            case "start again":
                return brood.start(brood.child(request["name"]).program)
            case "ready":
                return brood.until_ready(request["name"], request["timeout_s"])
            case "signal":
                return brood.child(request["name"]).signal(request["number"])
            case "wait":
                return brood.child(request["name"]).wait(request["timeout_s"])
            case "end":
                return self._end(work_dir)
            case other:
                raise NotFound(f"no such request: {other}")

    def _end(self, work_dir: str) -> list[str]:
        brood = self._broods.pop(work_dir)
        try:
            return brood.end()
        except Exception as error:  # the other boxes must be ended all the same
            traceback.print_exc()
            return [f"box {work_dir}: {error}"]


def sweep(work_dir: Path) -> list[str]:
    """Kill what still runs in the cgroups of a box and remove them; return those that stay.

    Nothing is there after agents that ended as they should.
    """
    prefix = cgroups_prefix(work_dir)
    end = monotonic() + SWEEP_S
    while roots := [
        root for pattern in (f"{prefix}*", f"*/{prefix}*") for root in Path("/sys/fs/cgroup").glob(pattern)
    ]:
        for root in roots:
            with suppress(OSError):
                for pid in processes_in(root):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for folder, _, _ in os.walk(root, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        if monotonic() > end:
            return [f"cgroup {root}" for root in roots if root.exists()]
        sleep(_POLL_S)
    return []


def _last_line(program: Program) -> str:
    with suppress(OSError):
        lines = Path(program.log_file).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return f"{lines[-1]} (log: {program.log_file})"
    return "it said nothing"


def main() -> int:
    """Run the fork server: argv is the descriptor of the channel to the owner, and the owner's pid."""
    channel, owner = socket.socket(fileno=int(sys.argv[1])), os.pidfd_open(int(sys.argv[2]))
    if os.getppid() != int(sys.argv[2]):
        return 0
    # Ctrl-C is for the owner. Being told to end is no reason to leave anything behind.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # What the user's shell says to Mesos programs is not for these.
    for name in [name for name in os.environ if name.startswith(("MESOS_", "MARATHON_", "LIBPROCESS_"))]:
        del os.environ[name]
    for _ in preload(PRELOADED):
        pass
    return ForkServer(channel, owner).serve()


if __name__ == "__main__":
    sys.exit(main())
