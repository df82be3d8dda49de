"""A scripted HTTP server on loopback, and the command line run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from marathon_cli.main import cli
from tests.support.marathon_cli.scripted_server import (
    Answer,
    Run,
    ScriptedServer,
    scripted_server,
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as scripted:
        yield scripted


@pytest.fixture
def marathon(server: ScriptedServer) -> ScriptedServer:
    """A Marathon (and, at the same address, a master) with the role slave_public and no apps."""
    config = {"mesos_role": "slave_public", "features": ["gpu_resources"], "mesos_leader_ui_url": server.url + "/"}
    server.on("GET", "/v2/info", {"name": "marathon", "version": "1.11.0", "marathon_config": config})
    server.on("GET", "/v2/apps", {"apps": []})
    server.on("GET", "/v2/tasks", {"tasks": []})
    server.on("GET", "/v2/deployments", Answer(200, []))
    server.on("GET", "/v2/queue", {"queue": []})
    return server


@pytest.fixture
def run(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `mesos-gpu` with words (and stdin) against the scripted server."""
    monkeypatch.setenv("MARATHON_URL", server.url)
    monkeypatch.setenv("MESOS_GPU_WORK_DIR", str(tmp_path / "no-box"))
    monkeypatch.setenv("MESOS_GPU_CONFIG_DIR", str(tmp_path / "no-config"))

    def invoke(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, words, input=stdin)

    return invoke


@pytest.fixture
def app_file(tmp_path: Path) -> Callable[[Any], str]:
    """Write an app file (a document, or text as it is) and return its path."""

    def write(content: Any) -> str:
        path = tmp_path / "app.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return str(path)

    return write
