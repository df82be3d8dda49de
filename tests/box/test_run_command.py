"""`mesos-gpu run` on a live box: a command once, its output, its status, and nothing left of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon_cli.oneoff import trace
from marathon_cli.resident import place
from marathon_cli.resident.ending import end_helpers
from tests.support.box.live import LiveBox, nothing_left
from tests.support.marathon_cli.residence import FRONT
from tests.support.terminal import Terminal

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    """One box for the tests that change little."""
    folder = Path(tmp_path_factory.mktemp("run"))
    box = LiveBox(folder / "box")
    (folder / "cdi").mkdir()
    nic = {"name": "zero", "containerEdits": {"deviceNodes": [{"path": "/dev/nic", "hostPath": "/dev/zero"}]}}
    spec = {"cdiVersion": "0.5.0", "kind": "example.com/nic", "devices": [nic], "containerEdits": {"env": ["NIC=0"]}}
    (folder / "cdi" / "nic.json").write_text(json.dumps(spec))
    box.env |= {"MESOS_CDI_DEVICES": "example.com/nic", "MESOS_CDI_DIRS": str(folder / "cdi")}
    with nothing_left(box):
        box.up("--gpu_driver=simulated", "--simulated_gpus=4")
        yield box


def test_a_command_runs_once_is_shown_ends_us_as_it_ended_and_is_gone(running: LiveBox) -> None:
    seen = running.cli("run", "--gpus", "2", "-e", "WORD=b", "--", "sh", "-c", "nvidia-smi -L; echo $WORD >&2; exit 7")
    assert (seen.returncode, seen.stdout.count("GPU-"), seen.stderr.splitlines()[-1]) == (7, 2, "b")
    assert running.cli("run", "--", "sh", "-c", "kill -KILL $$").returncode == 137

    # With a pipe into it: the command runs beside what holds the GPUs, and its status is ours.
    piped = running.cli(
        "run", "-i", "--", "sh", "-c", "read line; echo got $line; nvidia-smi -L; exit 5", text="hello\n"
    )
    assert (piped.returncode, piped.stdout.splitlines()[0], piped.stdout.count("GPU-")) == (5, "got hello", 1)

    late = running.cli("run", "--gpus", "9", "--timeout", "5", "--", "true")
    assert late.returncode == 4
    assert "not enough GPUs are free on one machine" in late.stderr

    # An app of that name is somebody's: it is refused, and not removed.
    running.add({"id": "mine", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    taken = running.cli("run", "--name", "mine", "--", "true")
    assert taken.returncode == 1
    assert "already exists" in taken.stderr
    assert running.ok("app", "list", "-q") == "/mine\n"

    kept = running.cli("run", "--no-rm", "--name", "kept", "--gpus", "0", "--", "true")
    assert kept.returncode == 0, kept.stderr
    assert running.marathon("/v2/apps/kept")["app"]["instances"] == 0
    for name in ("mine", "kept"):
        running.ok("app", "remove", name, "--wait")
    running.until("all GPUs are free again", lambda: running.gpus_free() == 4)


def test_devices_are_given_by_their_cdi_names(running: LiveBox) -> None:
    look = ("--", "sh", "-c", "echo $NIC; head -c 3 /dev/nic | wc -c; ls /dev | grep -c '^nvidia[0-9]'")
    gpu = running.cli("run", "--device", "nvidia.com/gpu=0", *look)
    assert (gpu.returncode, gpu.stdout.split()[-1]) == (0, "1"), "one GPU, whichever is free"
    alone = running.cli("run", "--device=example.com/nic=zero", *look)
    assert alone.stdout == "0\n3\n0\n", alone.stderr
    both = running.cli(
        "run", "--device=example.com/nic=zero", "--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=1", *look
    )
    assert both.stdout == "0\n3\n2\n", both.stderr
    gone = running.cli("run", "--device=example.com/nic=gone", "--", "true")
    assert gone.returncode != 0
    assert (
        "there is no CDI device example.com/nic=gone: of example.com/nic there is example.com/nic=zero" in gone.stderr
    )
    other = running.cli("run", "--device=other.org/x=1", "--", "true")
    assert "other.org/x=1 is not given to tasks by this agent, but only those of example.com/nic" in other.stderr


def test_runs_in_a_row_do_not_wait_for_offers(running: LiveBox) -> None:
    for number in range(7):
        seen = running.cli("run", "--", "echo", str(number))
        assert (seen.returncode, seen.stdout, seen.stderr) == (0, f"{number}\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_whatever_ends_us_the_task_is_ended_and_removed(running: LiveBox, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "marathon_cli", "run", "--", "sh", "-c", "echo begun; sleep 1000"]
    with subprocess.Popen(command, env=running.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert b"Traceback" not in err
    if number == signal.SIGINT:
        assert re.search(rb"^mesos-gpu: interrupted; run-sh-[0-9a-f]{6} is removed\n\Z", err, re.M)
    assert running.ok("app", "list", "-q") == ""
    running.until("all GPUs are free again", lambda: running.gpus_free() == 4)


def test_a_terminal_is_given_to_the_command_and_given_back(running: LiveBox) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "marathon_cli", "run", "-it", "--", "sh", "-c", "tty && read line && exit $line"]
    with subprocess.Popen(
        command, env=running.env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        seen = b""
        while b"/dev/pts/" not in seen:
            seen += os.read(ours, 1024)
        os.write(ours, b"9\r")
        assert process.wait(60) == 9, seen
    os.close(ours)
    assert running.ok("app", "list", "-q") == ""


@pytest.fixture(scope="module")
def resident(running: LiveBox) -> Iterator[dict[str, str]]:
    """The environment of commands on the box that have a helper."""
    with tempfile.TemporaryDirectory(prefix="mg-") as folder:
        env = {name: value for name, value in running.env.items() if not name.startswith("PYTHON")}
        env |= {"MESOS_GPU_RESIDENT": "1", "MESOS_GPU_RESIDENT_DIR": f"{folder}/r", "LANG": "C.UTF-8"}
        try:
            for _ in range(2):
                subprocess.run([*FRONT, "ping"], env=env, cwd="/", check=True, capture_output=True, timeout=60)
            path = place.path_of(env)
            running.until("a helper listens", lambda: Path(f"{path}{place.SOCKET}").exists())
            yield env
        finally:
            end_helpers(env)


def installed(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FRONT, *words], env=env, cwd="/", capture_output=True, text=True, timeout=120, check=False)


def test_a_helper_s_run_is_as_any_other(running: LiveBox, resident: dict[str, str]) -> None:
    seen = installed(resident, "run", "--gpus", "2", "--", "sh", "-c", "nvidia-smi -L; echo b >&2; exit 7")
    assert (seen.returncode, seen.stdout.count("GPU-"), seen.stderr) == (7, 2, "b\n")
    assert installed(resident, "run", "--", "sh", "-c", "kill -KILL $$").returncode == 137
    for words in (["app", "list"], ["gpu", "list"], ["ps"], ["get", "nodes"], ["why", "nothing"], ["--help"]):
        alone, ours = running.cli(*words), installed(resident, *words)
        assert (ours.returncode, ours.stdout, ours.stderr) == (alone.returncode, alone.stdout, alone.stderr), words

    # Its stages are told to whoever asks, and the helper has them begin sooner; by how much is a benchmark's affair.
    told = installed({**resident, trace.VARIABLE: f"{time.time()}"}, "run", "--", "true").stderr
    assert [stage for stage, _ in trace.read(told)][:2] == ["program begun", "asked for"]
    assert {"TASK_FINISHED", "removed"} <= {stage for stage, _ in trace.read(told)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_helper_s_run_is_removed_whatever_ends_it(
    running: LiveBox, resident: dict[str, str], number: signal.Signals
) -> None:
    """By kill -9, too, which its child hears as a terminal that is gone."""
    command = [*FRONT, "run", "--", "sh", "-c", "echo begun; sleep 1000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=resident, cwd="/", **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    running.until("the app is removed", lambda: running.ok("app", "list", "-q") == "")
    running.until("all GPUs are free again", lambda: running.gpus_free() == 4)


def test_a_terminal_is_given_where_a_helper_is_there_too(running: LiveBox, resident: dict[str, str]) -> None:
    terminal = Terminal()
    command = [*FRONT, "run", "-it", "--", "sh", "-c", "tty && read line && exit $line"]
    with terminal.run(command, resident) as process:
        terminal.until(b"/dev/pts/")
        terminal.type(b"9\r")
        assert terminal.end(process) == 9
    running.until("the app is removed", lambda: running.ok("app", "list", "-q") == "")
