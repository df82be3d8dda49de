"""Our agents and our Marathon under a genuine master: every one a process, as in any box for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
from kazoo.client import KazooClient

from mesos_gpu.errors import Unavailable
from mesos_gpu.testing import plan
from mesos_gpu.testing.box import BoxAgent, MesosBox
from mesos_gpu.testing.client import ForkServerClient
from mesos_gpu.testing.plan import BoxWishes, Value
from tests.genuine.master import GenuineMaster
from tests.genuine.releases import Release
from tests.support.zookeeper import RealZooKeeper

PATIENT = {"executor_reregistration_timeout": "15secs"}
"""For agents that are killed under executors, on a busy machine; they continue as soon as all are back."""


class GenuineBox(MesosBox):
    """A box whose master is genuine; what befalls master and agents is the same, and so is what they are asked."""

    def __init__(self, fork_server: ForkServerClient, work_dir: Path, release: Release, **wishes: Any) -> None:
        """`wishes` are those of BoxWishes; `master_flags` are Mesos' own."""
        self._wishes = BoxWishes(**wishes)
        flags = {name: _text(value) for name, value in self._wishes.master_flags.items()}
        work_dir.mkdir(parents=True)
        self.genuine = GenuineMaster(release, work_dir / "genuine", **flags)
        self._fork_server, self.work_dir = fork_server, work_dir
        self.is_up, self.marathon_url, self.agents = True, None, ()
        self._ours = False
        try:
            self.url = self.genuine.start().url
            self.agents = tuple(self._start_agent(n, program) for n, program in enumerate(self._agents()))
            if self._wishes.marathon:
                self.start_marathon("marathon")
            for agent in self.agents:
                agent.ready()
            if self._wishes.marathon:
                self.until("Marathon has subscribed", lambda: self.state()["frameworks"])
        except BaseException:
            self.down()
            raise

    def _agents(self) -> list[plan.Program]:
        return plan.agents(self._wishes, self.work_dir, self.genuine.address)

    def _start_agent(self, n: int, program: plan.Program) -> BoxAgent:
        gpus = self._wishes.gpus
        agent = BoxAgent(self._fork_server, self.work_dir, n, gpus if isinstance(gpus, int) else gpus[n])
        agent.pid = self._fork_server.start(self.work_dir, program)
        return agent

    def start_marathon(self, name: str, flags: Mapping[str, Value] | None = None) -> str:
        """Start a Marathon, with further flags; return its URL, which `marathon_url` is from now on, too."""
        program = plan.marathon(self.work_dir, self.genuine.address)
        given = flags or {}
        usual = [word for word in program.flags if not ("zk" in given and word.startswith("--store_path="))]
        words = (*usual, *(f"--{flag}={_text(value)}" for flag, value in given.items()))
        files = {kind: str(self.work_dir / f"{name}.{ending}") for kind, ending in _FILES.items()}
        self._fork_server.start(self.work_dir, replace(program, name=name, flags=words, **files))
        self.marathon_url = str(self._fork_server.until_ready(self.work_dir, name)["url"])
        return self.marathon_url

    def until_ended(self, agent: BoxAgent) -> int:
        """Wait until an agent has ended by itself; return its exit status."""
        status = self._fork_server.wait(self.work_dir, agent.name)
        assert status is not None, f"{agent.name} runs on\n{self.logs()}"
        return status

    def stop_marathon(self, name: str = "marathon", number: int = 9) -> None:
        """End a Marathon, with kill -9 unless said otherwise."""
        self._fork_server.signal(self.work_dir, name, number)
        self._fork_server.wait(self.work_dir, name)

    def restart_marathon(self, name: str = "marathon") -> None:
        """Start a Marathon that has ended again, where it was."""
        self._fork_server.start_again(self.work_dir, name)
        self._fork_server.until_ready(self.work_dir, name)

    def kill_master(self) -> None:
        if self._ours:
            super().kill_master()
            self._ours = False
        else:
            self.genuine.kill()

    def kill_everything(self) -> None:
        """End the master and all agents with SIGKILL at one moment; only then wait for any of them."""
        for agent in self.agents:
            self._fork_server.signal(self.work_dir, agent.name, signal.SIGKILL)
        self.kill_master()
        for agent in self.agents:
            self._fork_server.wait(self.work_dir, agent.name)

    def start_master(self, release: Release | None = None) -> None:
        """Start the master again, at the same address; of another release, if there is one."""
        self.genuine.release = release or self.genuine.release
        self.genuine.start()

    def start_ours(self) -> None:
        """Start our own master in the genuine one's place, at its address."""
        program = plan.master(BoxWishes(), self.work_dir)
        self._fork_server.start(self.work_dir, replace(program, port=self.genuine.port))
        self._fork_server.until_ready(self.work_dir, "master")
        self._ours = True

    def down(self) -> None:
        try:
            if self.is_up and not self._ours and not self.genuine.runs:
                self.genuine.start()  # agents end their tasks when their master can be told so
            super().down()
        finally:
            self.genuine.kill()

    def logs(self) -> str:
        return f"{super().logs()}\n--- Mesos {self.genuine.release.version}\n{self.genuine.last_words()}"

    @contextmanager
    def in_zookeeper(self, server: RealZooKeeper) -> Iterator[str]:
        """Write the master into ZooKeeper as masters do that were elected; give the URL of the place.

        One that is its own leader, as here, does not do so itself. Source: src/master/contender/zookeeper.cpp.
        """
        path = f"/mesos-{self.genuine.port}"
        client = KazooClient(server.hosts)
        client.start()
        try:
            info = {**self.state()["leader_info"], "ip": 16777343, "version": self.genuine.release.version}
            info["address"] = {"hostname": "127.0.0.1", "ip": "127.0.0.1", "port": self.genuine.port}
            client.ensure_path(path)
            client.create(f"{path}/json.info_", json.dumps(info).encode(), ephemeral=True, sequence=True)
            yield server.url(path)
        finally:
            client.stop()
            client.close()

    def until(self, what: str, holds: Callable[[], object], patience_s: float = 120.0) -> None:
        """Wait as a box's does; what a server or a command refuses, or does not know yet, is asked again."""

        def held() -> object:
            try:
                return holds()
            except (AssertionError, LookupError, ValueError, requests.RequestException) as error:
                raise Unavailable(str(error)) from error

        super().until(what, held, patience_s)

    # --- what is asked --------------------------------------------------------------------------------------------

    def marathon(self, method: str, path: str, document: Any = None) -> Any:
        """Ask Marathon; the answer must not be an error. Raises Unavailable while nobody leads."""
        try:
            answer = requests.request(method, f"{self.marathon_url}{path}", json=document, timeout=60)
        except requests.ConnectionError as error:
            raise Unavailable(str(error)) from None
        if answer.status_code in (502, 503):
            raise Unavailable(answer.text)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}\n{self.logs()}"
        return answer.json() if answer.text else None

    def cli(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `mesos-gpu ...` as somebody who knows Marathon's address alone."""
        environment = {name: value for name, value in os.environ.items() if name != "MESOS_URL"}
        command = [sys.executable, "-m", "marathon_cli", *words]
        environment["MARATHON_URL"] = str(self.marathon_url)
        return subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, timeout=60, check=False
        )

    def ok(self, *words: str, text: str | None = None) -> str:
        """Run a command that must succeed; return its stdout."""
        done = self.cli(*words, text=text)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def told(self, *words: str) -> Any:
        """Return what a command tells with --json."""
        return json.loads(self.ok(*words, "--json"))

    def operate(self, kind: str, body: Any = None) -> Any:
        """Make a call of the master's operator API, which must go well."""
        document = {"type": kind} | ({} if body is None else {kind.lower(): body})
        headers = {"Accept": "application/json"}
        answer = requests.post(f"{self.url}/api/v1", json=document, headers=headers, timeout=60)
        assert answer.ok, f"{kind}: {answer.status_code} {answer.text}\n{self.logs()}"
        return answer.json() if answer.text else None

    def metric(self, name: str) -> float:
        """Return one of the master's metrics."""
        return float(requests.get(f"{self.url}/metrics/snapshot", timeout=60).json()[name])

    def tasks(self) -> dict[str, str]:
        """Return the state of every task that the master knows, ended and unreachable ones too."""
        return {
            task["id"]: task["state"]
            for framework in (*self.state()["frameworks"], *self.state()["completed_frameworks"])
            for kind in ("completed_tasks", "unreachable_tasks", "tasks")
            for task in framework.get(kind, ())
        }

    def instances(self, app_id: str) -> dict[str, str]:
        """Return the state of each of an app's tasks, as Marathon shows them."""
        shown = self.marathon("GET", f"/v2/apps/{app_id}/tasks")["tasks"]
        return {task["id"]: task["state"] for task in shown}

    def run_app(self, document: dict[str, Any]) -> list[str]:
        """Add an app and wait until all of its tasks run; return their ids."""
        self.marathon("POST", "/v2/apps", document)
        wanted, app_id = document.get("instances", 1), document["id"].strip("/")

        def all_run() -> bool:
            return list(self.instances(app_id).values()) == ["TASK_RUNNING"] * wanted

        self.until(f"{app_id} runs", all_run)
        return sorted(self.instances(app_id))


_FILES = {"ready_file": "json", "log_file": "log"}


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


MakeBox = Callable[..., GenuineBox]
