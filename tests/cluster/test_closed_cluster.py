"""Where everybody must show who he is: our master, agent, Marathon and command line still are one cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.agent.api.access import open_access
from mesos_gpu.agent.flags import COMMAND_LINE
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.mesos.security.authentication import basic_header
from mesos_gpu.mesos.security.cram_md5 import Credential
from tests.support import places
from tests.support.cluster import ClusterAgent, cluster_agent
from tests.support.marathon.program import Program
from tests.support.master.live import live_master, soon

APP = places.EXAMPLES / "simple-gpu-test.json"
SECRETS = {"ops": "0ps", "marathon": "m4rathon", "agents": "4gents"}
ANY = {"type": "ANY"}
LISTS = {
    "permissive": False,
    "register_agents": [{"principals": {"values": ["agents"]}, "agents": ANY}],
    "register_frameworks": [{"principals": {"values": ["marathon"]}, "roles": {"values": ["slave_public"]}}],
    "run_tasks": [{"principals": {"values": ["marathon"]}, "users": ANY}],
    "view_frameworks": [{"principals": {"values": ["ops"]}, "users": ANY}],
    "view_tasks": [{"principals": {"values": ["ops"]}, "users": ANY}],
    "view_executors": [{"principals": {"values": ["ops"]}, "users": ANY}],
    "view_roles": [{"principals": {"values": ["ops"]}, "roles": ANY}],
}
MASTER = (
    *("--authenticate_agents", "--authenticate_http_readonly", "--authenticate_http_readwrite"),
    *("--authenticate_http_frameworks", "--http_framework_authenticators=basic"),
)
AGENT = ("--authenticate_http_readonly", "--authenticate_http_readwrite", "--authenticate_http_executors")


def secret_file(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    file.chmod(0o600)
    return file


class Closed:
    """A master, an agent with fake containers, and the Marathon program, with secrets and lists all around."""

    def __init__(self, folder: Path, master: str, agent: ClusterAgent, marathon: Program) -> None:
        self.master, self.agent, self.marathon, self._folder = master, agent, marathon, folder

    async def cli(self, *words: str, **environ: str) -> tuple[int, str, str]:
        """Run the command line; return its exit status and what it said."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MESOS", "MARATHON"))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "marathon_cli", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **kept,
                "MARATHON_URL": self.marathon.url,
                "MESOS_URL": self.master,
                "MESOS_GPU_CONFIG_DIR": str(self._folder / "config"),
                **environ,
            },
        )
        said, errors = await asyncio.wait_for(process.communicate(), 100)
        return process.returncode or 0, said.decode(), errors.decode()


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[Closed]:
    lines = "".join(f"{name} {secret}\n" for name, secret in SECRETS.items())
    credentials = secret_file(tmp_path, "credentials", lines)
    key = secret_file(tmp_path, "key", "a key that signs")
    lists = secret_file(tmp_path, "acls", json.dumps(LISTS))
    words = [f"--work_dir={tmp_path}", f"--http_credentials={credentials}", f"--jwt_secret_key={key}"]
    access = open_access(parse_flags(COMMAND_LINE, ["--work_dir=/w", *words, *AGENT, f"--acls={lists}"], {})[0])
    async with live_master(tmp_path / "master", f"--credentials={credentials}", f"--acls={lists}", *MASTER) as master:
        address = master.url.removeprefix("http://")
        tim = Credential("agents", SECRETS["agents"])
        async with cluster_agent(tmp_path / "agent", address, credential=tim, access=access) as agent:
            await soon(agent.agent.registered.wait())
            secret = secret_file(tmp_path, "secret", f"{SECRETS['marathon']}\n")
            marathon = Program(tmp_path, address)
            try:
                await marathon.start(
                    "--http_credentials=user:password",
                    "--mesos_authentication_principal=marathon",
                    f"--mesos_authentication_secret_file={secret}",
                )
                yield Closed(tmp_path, master.url, agent, marathon)
            finally:
                if marathon.process is not None and marathon.process.returncode is None:
                    await marathon.end(signal.SIGTERM)


async def test_an_app_runs_and_only_who_is_known_and_may_sees_it(closed: Closed) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/v2/apps", "/ping", "/metrics", "/v2/info"):
            async with session.get(closed.marathon.url + path) as answer:
                assert answer.status == 401, path
                assert answer.headers["WWW-Authenticate"] == 'Basic realm="Mesosphere"'
    status, _, errors = await closed.cli("app", "list")
    assert status == 1
    assert "needs credentials" in errors
    known = {"MESOS_GPU_USER": "user", "MESOS_GPU_PASSWORD": "password"}
    status, _, errors = await closed.cli("app", "add", str(APP), "--wait", "--timeout", "90", **known)
    assert status == 0, errors
    [config] = closed.agent.containers.launched
    assert config.gpus == 1

    status, _, errors = await closed.cli("agent", "list", **known)
    assert status == 1
    assert "needs credentials: keep `mesos-user` and `mesos-password`" in errors
    who: dict[str, dict[str, Any]] = {}
    for name in ("ops", "marathon"):
        mesos = {"MESOS_GPU_MESOS_USER": name, "MESOS_GPU_MESOS_PASSWORD": SECRETS[name]}
        status, said, errors = await closed.cli("agent", "list", "-o", "json", **known, **mesos)
        assert status == 0, errors
        who[name] = json.loads(said)[0]
        status, said, errors = await closed.cli("agent", "drain", who[name]["id"], **known, **mesos)
        assert (status, "403 Forbidden." in errors) == (1, True), errors
        async with aiohttp.ClientSession(headers={"Authorization": basic_header(name, SECRETS[name])}) as session:
            for url in (closed.master, f"http://127.0.0.1:{closed.agent.port}"):
                async with session.get(f"{url}/state") as answer:
                    frameworks = [framework["name"] for framework in (await answer.json())["frameworks"]]
                    assert frameworks == (["marathon"] if name == "ops" else []), url


async def test_an_agent_that_the_master_may_not_register_says_so_and_fails(closed: Closed, tmp_path: Path) -> None:
    credential = secret_file(tmp_path, "as-ops", f"ops {SECRETS['ops']}\n")
    words = [f"--master={closed.master.removeprefix('http://')}", f"--credential={credential}", "--port=0"]
    words += [f"--work_dir={tmp_path / 'refused'}", "--gpu_driver=simulated", "--simulated_gpus=1"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesos_gpu.agent.service", *words), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 1, errors.decode()
    assert "Not authorized to register agent" in errors.decode().splitlines()[-1]
