"""A whole cluster that speaks nothing but TLS, with certificates asked of everybody, and the command line before it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.tls import Authority

PATIENCE_S = 120.0
APP = {"id": "/plain", "cmd": "echo said by the task; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}
POD = {
    "id": "/group",
    "containers": [
        {
            "name": "one",
            "exec": {"command": {"shell": "echo said by the pod; sleep 1000"}},
            "resources": {"cpus": 0.1, "mem": 32, "gpus": 1},
        }
    ],
}


class Program:
    """One service in a process of its own."""

    def __init__(self, folder: Path, module: str, environment: Mapping[str, str], *flags: str) -> None:
        self.log, self._ready = folder / f"{module}.log", folder / f"{module}.json"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"mesos_gpu.{module}.service", f"--ready_file={self._ready}", *flags],
                env=dict(environment),
                stdout=log,
                stderr=log,
            )

    def ready(self) -> dict[str, Any]:
        """Wait until it says that it can be used."""
        end = time.monotonic() + PATIENCE_S
        while not self._ready.exists():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        return json.loads(self._ready.read_text())  # type: ignore[no-any-return]

    def until_logged(self, words: str) -> None:
        """Wait for a line of its log."""
        end = time.monotonic() + PATIENCE_S
        while words not in self.log.read_text():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class Cluster:
    """Master, agent and Marathon, up; `cli` runs the command line with our certificate."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder, self.authority = folder, authority
        certificate, key = authority.issue("node")
        mine, my_key = authority.issue("me", kind="client")
        plain = {
            name: text for name, text in os.environ.items() if not name.startswith(("MESOS", "MARATHON", "LIBPROC"))
        }
        secure = {
            "ENABLED": "true",
            "CERT_FILE": str(certificate),
            "KEY_FILE": str(key),
            "CA_FILE": str(authority.certificate),
            "REQUIRE_CLIENT_CERT": "true",
            "HOSTNAME_VALIDATION_SCHEME": "openssl",
            "VERIFY_IPADD": "true",
        }
        environment = {**plain, **{f"LIBPROCESS_SSL_{name}": text for name, text in secure.items()}}
        self.programs: list[Program] = []
        try:
            master = self._start(folder, "master", environment, "--port=0", f"--work_dir={folder / 'm'}")
            self.url = str(master.ready()["url"])
            at = f"--master={self.url.removeprefix('https://')}"
            agent = self._start(
                folder,
                "agent",
                environment,
                at,
                "--port=0",
                f"--work_dir={folder / 'a'}",
                f"--cgroups_root=mesos-test-{uuid.uuid4().hex[:12]}",
                "--gpu_driver=simulated",
                "--simulated_gpus=2",
                "--resources=cpus:4;mem:4096;disk:1024",
                "--registration_backoff_factor=50ms",
                "--executor_shutdown_grace_period=1secs",
                "--http_executor_domain_sockets",
            )
            marathon = self._start(
                folder,
                "marathon",
                environment,
                at,
                "--http_port=0",
                f"--store_path={folder / 'm.db'}",
                "--mesos_role=*",
            )
            self.agent_url = str(agent.ready()["url"])
            self.marathon_url = str(marathon.ready()["url"])
        except BaseException:
            self.end()
            raise
        self.environment = {
            **plain,
            "MARATHON_URL": self.marathon_url,
            "MESOS_GPU_CA": str(authority.certificate),
            "MESOS_GPU_CLIENT_CERT": str(mine),
            "MESOS_GPU_CLIENT_KEY": str(my_key),
            "XDG_CONFIG_HOME": str(folder),
        }

    def _start(self, folder: Path, module: str, environment: Mapping[str, str], *flags: str) -> Program:
        program = Program(folder, module, environment, *flags)
        self.programs.append(program)
        return program

    def cli(self, *words: str, text: str | None = None, without: str = "") -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in self.environment.items() if not without or without not in name}
        return subprocess.run(
            [sys.executable, "-m", "marathon_cli", *words],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ok(self, *words: str, text: str | None = None) -> str:
        done = self.cli(*words, text=text)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def until_said(self, name: str, words: str) -> None:
        """Read a task's output until it has said something."""
        end = time.monotonic() + PATIENCE_S
        while (said := self.ok("task", "log", name)) != words:
            assert time.monotonic() < end, said

    def logs(self) -> str:
        return "\n".join(f"--- {program.log}\n{program.log.read_text()}" for program in self.programs)

    def end(self) -> None:
        """End the scheduler, then the agent with all its tasks, then the master."""
        endings = {"agent": signal.SIGUSR1}
        for program in sorted(self.programs, key=lambda one: ("marathon", "agent", "master").index(one.log.stem)):
            program.end(endings.get(program.log.stem, signal.SIGTERM))


def environment_of(path: Path) -> bytes:
    """Return what a process was started with, b"" of one that has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("tls")
    made = Cluster(folder, Authority(folder / "ca"))
    try:
        yield made
    finally:
        made.end()


@pytest.mark.root
def test_an_app_and_a_pod_run_and_the_command_line_lists_reads_and_enters_them(cluster: Cluster) -> None:
    cluster.ok("app", "add", "-", "--wait", text=json.dumps(APP))
    cluster.ok("pod", "add", "-", "--wait", text=json.dumps(POD))
    (task,) = json.loads(cluster.ok("task", "list", "plain", "-o", "json"))
    assert task["state"] == "TASK_RUNNING"
    assert len(task["gpuDevices"]) == 1, "asked of the agent, over TLS"
    cluster.until_said("plain", "said by the task\n")
    cluster.until_said("group", "said by the pod\n")
    (executor,) = [
        environment
        for path in Path("/proc").glob("[0-9]*/environ")
        if b"MESOS_EXECUTOR_ID=instance-group." in (environment := environment_of(path))
        and str(cluster.folder).encode() in environment
        and b"mesos_gpu/executor" in path.with_name("cmdline").read_bytes()
        and b"tini" not in path.with_name("cmdline").read_bytes()
    ]
    assert b"MESOS_DOMAIN_SOCKET=" in executor
    assert b"LIBPROCESS_SSL_KEY_FILE=" not in executor, "the key may be the agent's alone"
    assert cluster.ok("task", "exec", "plain", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"
    assert json.loads(cluster.ok("agent", "list", "-o", "json"))


@pytest.mark.root
def test_without_a_certificate_nobody_gets_in_and_is_told_why(cluster: Cluster) -> None:
    assert cluster.url.startswith("https://")
    assert cluster.agent_url.startswith("https://")
    refused = cluster.cli("agent", "list", without="CLIENT")
    assert refused.returncode == 1
    assert cluster.url.removeprefix("https://") in refused.stderr
    context = ssl.create_default_context(cafile=str(cluster.authority.certificate))
    for url in (cluster.url, cluster.agent_url):
        for asked, trusting in ((url, context), (url.replace("https", "http"), None)):
            with pytest.raises((urllib.error.URLError, ConnectionError, http.client.HTTPException)):
                urllib.request.urlopen(f"{asked}/version", timeout=PATIENCE_S, context=trusting)
    for words in ("it shows no certificate", "it speaks HTTP without TLS"):
        for program in cluster.programs[:2]:
            program.until_logged(words)
