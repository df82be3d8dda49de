"""What a test holds in its hands: a running box, its agents, and what can befall them."""

from __future__ import annotations

import glob
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.errors import Conflict, NotFound, Unavailable
from mesos_gpu.testing import plan
from mesos_gpu.testing.client import ForkServerClient

PATIENCE_S = 60.0
_HTTP_TIMEOUT_S = 60.0
_POLL_S = 0.02
_LOG_LINES = 40
# A proxy of the environment leads nowhere from the loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _http(url: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    try:
        with _opener.open(request, timeout=_HTTP_TIMEOUT_S) as response:
            return json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise Unavailable(f"{url}: {error.code} {error.read(200).decode(errors='replace')}") from None
    except OSError as error:
        raise Unavailable(f"{url}: {error}") from None


class BoxAgent:
    """One agent of a box. What befalls it here is what befalls agents: nothing is pretended to the master."""

    def __init__(self, fork_server: ForkServerClient, work_dir: Path, index: int, gpus: int) -> None:
        self._fork_server, self._box = fork_server, work_dir
        self.index, self.gpus = index, gpus
        self.name = plan.agent_name(index)
        self.work_dir = work_dir / self.name
        self.url = self.id = ""
        self.pid = 0

    def __repr__(self) -> str:
        return f"<BoxAgent {self.name} {self.id} {self.url}>"

    def ready(self) -> BoxAgent:
        """Wait until the master knows it. Raises Unavailable with its last words when it does not come up."""
        said = self._fork_server.until_ready(self._box, self.name)
        self.url, self.id = said["url"], said["id"]
        return self

    def state(self) -> dict[str, Any]:
        """Return its `/state`."""
        state: dict[str, Any] = _http(f"{self.url}/state")
        return state

    def gpu_uuids(self) -> dict[int, str]:
        """Return the UUIDs of its GPUs by index; simulated GPUs of one index have one UUID on every agent."""
        return {shown["index"]: shown["uuid"] for shown in _http(f"{self.url}/gpus")}

    def break_gpu(self, gpu: int | str, xid: int = 79) -> None:
        """Let a GPU, by index or UUID, fail with an XID of NVIDIA's (79: it is off the bus); seen within 0.1 s.

        An agent withdraws such a GPU: it offers one less, and tells the task that holds it, or with the agent flag
        `gpu_unhealthy_action=kill` ends that task. Raises NotFound for a GPU that is not there.
        """
        self._write_faults({**self._faults(), self._index(gpu): xid})

    def heal_gpu(self, gpu: int | str) -> None:
        """Make a GPU fit again and say so to the agent, as an operator would who replaced it. Raises NotFound."""
        healed = self._index(gpu)
        self._write_faults({index: xid for index, xid in self._faults().items() if index != healed})
        _http(f"{self.url}/gpus/{self.gpu_uuids()[healed]}/healthy", "POST")

    def kill(self) -> None:
        """End the agent with SIGKILL: its tasks run on, and nobody hears of them until it is started again."""
        self._fork_server.signal(self._box, self.name, signal.SIGKILL)
        self._fork_server.wait(self._box, self.name)

    def stop(self) -> None:
        """Stop it as for an upgrade (SIGTERM): the tasks of frameworks with `checkpoint` run on."""
        self._fork_server.signal(self._box, self.name, signal.SIGTERM)
        self._fork_server.wait(self._box, self.name)

    def leave(self) -> None:
        """Let it say goodbye (SIGUSR1): it ends its tasks and is gone for good, as when a machine is taken away."""
        self._fork_server.signal(self._box, self.name, signal.SIGUSR1)
        self._fork_server.wait(self._box, self.name)

    def start(self) -> BoxAgent:
        """Start it again where it was, and wait until the master knows it. Raises Conflict when it runs."""
        self.pid = self._fork_server.start_again(self._box, self.name)
        return self.ready()

    def partition(self) -> None:
        """Let nothing in or out of the agent: its process stands still, its tasks run on.

        The master notices when pings stay unanswered, after 75 s unless `master_flags` say otherwise, as
        `{"agent_ping_timeout": "1secs", "max_agent_ping_timeouts": 2}` does; then tasks are TASK_UNREACHABLE, or
        TASK_LOST for frameworks that are not PARTITION_AWARE.
        """
        self._fork_server.signal(self._box, self.name, signal.SIGSTOP)

    def rejoin(self) -> None:
        """End `partition`: the agent continues where it stood, and the master hears of its tasks again."""
        self._fork_server.signal(self._box, self.name, signal.SIGCONT)

    def _index(self, gpu: int | str) -> int:
        by_name: dict[int | str, int] = {n: n for n in range(self.gpus)}
        if isinstance(gpu, str):
            by_name |= {uuid: n for n, uuid in self.gpu_uuids().items()}
        if gpu not in by_name:
            raise NotFound(f"{self.name} has no GPU {gpu}; it has {self.gpus}")
        return by_name[gpu]

    def _faults(self) -> dict[int, int]:
        file = plan.faults_file(self._box, self.index)
        if not file.exists():
            return {}
        pairs = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
        return {int(gpu): int(xid) for gpu, xid in pairs}

    def _write_faults(self, faults: dict[int, int]) -> None:
        file = plan.faults_file(self._box, self.index)
        write_whole(file, plan.faults_text(faults).encode(), mode=PUBLIC, durable=False)


class MesosBox:
    """A master, agents and perhaps a Marathon, all up. `down` ends it; the fixtures do so, too."""

    def __init__(self, fork_server: ForkServerClient, work_dir: Path, wishes: plan.BoxWishes) -> None:
        """Bring the box up. Raises BadInput for what no box can be, Unavailable when a service does not come up."""
        self._fork_server, self.work_dir = fork_server, work_dir
        self.is_up = False
        count = wishes.count()
        faults = plan.faults(wishes)
        plan.agents(wishes, work_dir, "")  # what is wrong with the wishes is said before anything starts
        work_dir.mkdir(parents=True)
        self.marathon_url: str | None = None
        self.agents: Sequence[BoxAgent] = ()
        self.is_up = True
        try:
            fork_server.start(work_dir, plan.master(wishes, work_dir))
            self.url = ""
            self._master_ready()
            programs = plan.agents(wishes, work_dir, self.master)
            gpus = wishes.gpus if isinstance(wishes.gpus, Sequence) else [wishes.gpus] * count
            self.agents = tuple(BoxAgent(fork_server, work_dir, n, gpus[n]) for n in range(count))
            for agent, program, ill in zip(self.agents, programs, faults, strict=True):
                if ill:
                    agent._write_faults(dict(ill))
                agent.pid = fork_server.start(work_dir, program)
            if wishes.marathon:
                fork_server.start(work_dir, plan.marathon(work_dir, self.master))
                self.marathon_url = fork_server.until_ready(work_dir, "marathon")["url"]
            for agent in self.agents:
                agent.ready()
            if wishes.marathon:
                self.until("Marathon has subscribed", lambda: self.state()["frameworks"])
        except BaseException:
            self.down()
            raise

    def __repr__(self) -> str:
        return f"<MesosBox {self.url} {list(self.agents)}>"

    @property
    def master(self) -> str:
        """Return HOST:PORT of the master, as scheduler drivers take it."""
        return self.url.removeprefix("http://")

    def state(self) -> dict[str, Any]:
        """Return the master's `/state`."""
        state: dict[str, Any] = _http(f"{self.url}/state")
        return state

    def sandbox(self, task_id: str) -> Path:
        """Return the sandbox of a task, with its `stdout` and `stderr`; the latest one of that id.

        Raises NotFound when no agent has had such a task, or has it no sandbox yet.
        """
        runs = "slaves/*/frameworks/*/executors"
        found = [
            path
            for agent in self.agents
            for pattern in (
                f"{runs}/{glob.escape(task_id)}/runs/*-*",
                f"{runs}/*/runs/*-*/tasks/{glob.escape(task_id)}",
            )
            for path in agent.work_dir.glob(pattern)
        ]
        if not found:
            raise NotFound(f"no agent of this box has had a task {task_id}")
        return max(found, key=lambda path: path.stat().st_mtime_ns)

    def kill_master(self) -> None:
        """End the master with SIGKILL: schedulers and agents lose it, tasks run on."""
        self._fork_server.signal(self.work_dir, "master", signal.SIGKILL)
        self._fork_server.wait(self.work_dir, "master")

    def start_master(self) -> None:
        """Start a master again at the same address: another one, with the registry of the first, as after an election.

        Raises Conflict when one runs.
        """
        self._fork_server.start_again(self.work_dir, "master")
        self._master_ready()

    def fail_over(self) -> None:
        """Let another master take over; agents and schedulers find it by themselves."""
        self.kill_master()
        self.start_master()

    def until(self, what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Wait until `holds` returns something true; services that do not answer just now are asked again.

        Raises AssertionError, with what the services logged last, when that takes longer than `patience_s`.
        """
        end = time.monotonic() + patience_s
        while True:
            try:
                if holds():
                    return
            except Unavailable:
                pass
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {patience_s:g} s\n{self.logs()}")
            time.sleep(_POLL_S)

    def logs(self) -> str:
        """Return the last lines of every service's log, and where the whole is."""
        parts = []
        for file in sorted(self.work_dir.glob("*.log")):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            parts.append("\n".join([f"--- {file}", *lines[-_LOG_LINES:]]))
        return "\n".join(parts)

    def down(self) -> None:
        """End services, tasks and all that they held; nothing happens when that is done already.

        Raises Conflict when something could not be taken away.
        """
        if not self.is_up:
            return
        self.is_up = False
        left = self._fork_server.end(self.work_dir)
        if left:
            raise Conflict(f"left behind by {self.work_dir}: {'; '.join(left)}")

    def _master_ready(self) -> None:
        self.url = self._fork_server.until_ready(self.work_dir, "master")["url"]
