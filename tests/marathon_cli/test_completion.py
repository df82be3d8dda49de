"""What shells offer at Tab: asked of real shells, and of the program as they ask it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import places
from tests.support.marathon_cli.scripted_server import Answer, ScriptedServer
from tests.support.terminal import terminal

pytestmark = pytest.mark.slow

TASK = "train.instance-1._app.1"
Ask = Callable[..., list[str]]


@pytest.fixture
def env(marathon: ScriptedServer, tmp_path: Path) -> dict[str, str]:
    """Where `mesos-gpu` is a program and a scripted cluster is named."""
    address = marathon.url.removeprefix("http://")
    apps = [{"id": name} for name in ("/train", "/team/web", "/team/train-2", "/bad name", "/$(reboot)")]
    marathon.on("GET", "/v2/apps", {"apps": apps})
    tasks = [(TASK, "TASK_RUNNING"), ("train.instance-0._app.1", "TASK_FAILED"), ("other.instance-3", "TASK_RUNNING")]
    marathon.on("GET", "/tasks", {"tasks": [{"id": t, "slave_id": "S1", "state": s} for t, s in tasks]})
    slave = {"id": "S1", "hostname": "gpu-node-7", "pid": f"slave(1)@{address}", "resources": {}, "attributes": {}}
    marathon.on("GET", "/slaves", {"slaves": [slave]})
    marathon.on("GET", "/v2/deployments", Answer(200, [{"id": "d-1"}]))
    marathon.on("GET", "/v2/groups", {"id": "/", "groups": [{"id": "/team", "groups": [{"id": "/team/inner"}]}]})
    marathon.on("GET", "/v2/pods/::status", Answer(200, [{"id": "/team/pod"}, {"id": "/pair"}]))
    marathon.on("GET", "/v1/jobs", Answer(200, [{"id": "nightly"}, {"id": "team.index"}]))
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "mesos-gpu"
    root = places.ROOT
    program.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m marathon_cli "$@"\n')
    program.chmod(0o755)
    config = tmp_path / "config"
    config.mkdir()
    (config / "config").write_text("[prod]\nuser = x\n[staging]\n")
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "MARATHON_URL": marathon.url,
        "MESOS_GPU_CONFIG_DIR": str(config),
        "MESOS_GPU_COMPLETION_TIMEOUT": "60",
    }


@pytest.fixture
def ask(env: dict[str, str]) -> Ask:
    """Ask as bash asks: the words so far, the last of which is to be completed."""

    def asked(*words: str, **more: str) -> list[str]:
        typed = ["mesos-gpu", *words]
        # The word that is begun is told by its place; an empty one is not there.
        said = {
            "COMP_WORDS": " ".join(typed),
            "COMP_CWORD": str(len(typed) - 1),
            "_MESOS_GPU_COMPLETE": "bash_complete",
        }
        done = subprocess.run(["mesos-gpu"], env={**env, **said, **more}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.partition(",")[2] for line in done.stdout.split()]

    return asked


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ap",), ["apply", "app"]),
        (("task", "ex"), ["exec"]),
        (("app", "show", ""), ["team/train-2", "team/web", "train"]),
        (("app", "show", "/t"), ["/team/train-2", "/team/web", "/train"]),
        (("marathon", "app", "show", "tr"), ["train"]),
        (("task", "exec", "-it", "tr"), [TASK]),
        (("task", "exec", "train", "ba"), []),
        (("task", "log", "tr"), ["train"]),
        (("task", "log", "train."), [TASK]),
        (("agent", "describe", ""), ["gpu-node-7"]),
        (("pod", "show", ""), ["pair", "team/pod"]),
        (("pod", "kill", "/t"), ["/team/pod"]),
        (("job", "run", ""), ["nightly", "team.index"]),
        (("job", "schedule", "list", "team"), ["team.index"]),
        (("group", "show", ""), ["team", "team/inner"]),
        (("group", "scale", "/team/"), ["/team/inner"]),
        (("deployment", "watch", ""), ["d-1"]),
        (("marathon", "deployment", "rollback", "d"), ["d-1"]),
        (("config", "use", ""), ["prod", "staging"]),
        (("config", "set", "mesos-"), ["mesos-password", "mesos-url", "mesos-user"]),
        (("--profile", "p"), ["prod"]),
        (("app", "list", "--profile", "st"), ["staging"]),
        (("app", "list", "-o", "js"), ["json", "jsonpath="]),
        (("log",), ["logs"]),
        (("logs", "tr"), ["train"]),
        (("get", "de"), ["deployments"]),
        (("get", "deployments", "tr"), ["train"]),
        (("get", "deploy", "-o", "js"), ["json", "jsonpath="]),
        (("get", "jobs", "ni"), ["nightly"]),
        (("describe", "node", ""), ["gpu-node-7"]),
        (("stop", "t"), ["team.index", "team/pod", "team/train-2", "team/web", "train"]),
        (("accelerator-types", ""), ["list"]),
        (("job", "log", "tr"), ["train"]),
    ],
)
def test_what_is_offered(ask: Ask, words: tuple[str, ...], offered: list[str]) -> None:
    assert ask(*words) == offered


def test_names_are_asked_of_the_server_that_the_line_names(ask: Ask, marathon: ScriptedServer) -> None:
    assert ask("app", "show", "--marathon-url", marathon.url, "tr", MARATHON_URL="http://127.0.0.1:1") == ["train"]


def test_a_server_that_is_mute_broken_or_not_there_costs_no_more_than_its_names(ask: Ask, env: dict[str, str]) -> None:
    soon = {"MESOS_GPU_COMPLETION_TIMEOUT": "0.5"}
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert ask("app", "show", "tr", MARATHON_URL=f"http://127.0.0.1:{mute.getsockname()[1]}", **soon) == []
    for url in ("http://127.0.0.1:1", "nonsense://", "https://127.0.0.1:1"):
        assert ask("app", "show", "tr", MARATHON_URL=url, MESOS_GPU_INSECURE="true") == []
    (Path(env["MESOS_GPU_CONFIG_DIR"]) / "config").write_text("broken")
    assert ask("app", "show", "tr") == []
    assert ask("--auth", "ann", "app", "sho") == ["show"]


def test_bash_completes_commands_and_apps(env: dict[str, str]) -> None:
    with terminal() as tty, tty.run(["bash", "--norc", "--noprofile", "-i"], {**env, "PS1": "ready> "}) as shell:
        tty.until(b"ready> ")
        tty.type(b'eval "$(mesos-gpu completion bash)"; echo loa""ded\r')
        tty.until(b"loaded")
        tty.type(b"mesos-gpu ta\texe\ttrain\x1b*")  # ESC * puts all completions in
        tty.until(b"mesos-gpu task exec " + TASK.encode())
        tty.type(b"\x15exit\r")
        assert tty.end(shell) == 0


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_completes_commands_and_apps(env: dict[str, str]) -> None:
    with terminal() as tty, tty.run(["zsh", "-f", "-i"], {**env, "PS1": "ready> "}) as shell:
        tty.until(b"ready> ")
        tty.type(b"autoload -U compinit; compinit -u -D; eval \"$(mesos-gpu completion zsh)\"; echo loa''ded\r")
        tty.until(b"loaded\r")
        tty.type(b"mesos-gpu ta\texe\ttrain\t")
        tty.until(TASK.encode())
        tty.type(b"\x15exit\r")
        assert tty.end(shell) == 0


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes_commands_and_apps(env: dict[str, str]) -> None:
    line = 'mesos-gpu completion fish | source; complete -C "mesos-gpu task exec tr"; complete -C "mesos-gpu ta"'
    done = subprocess.run(["fish", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert [word.split()[0] for word in done.stdout.splitlines()] == [TASK, "task"]
