"""`mesos-gpu run` on a live box: a command once, its output, its status, and nothing left of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon_cli.oneoff import oneoff
from tests.support.box.live import LiveBox, nothing_left

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

    # An app of that name is somebody's: it is refused, and not removed.
    running.add({"id": "mine", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    taken = running.cli("run", "--name", "mine", "--", "true")
    assert taken.returncode == 1
    assert "mine" in taken.stderr
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
    assert "example.com/nic=gone" in gone.stderr
    assert "example.com/nic=zero" in gone.stderr
    other = running.cli("run", "--device=other.org/x=1", "--", "true")
    assert other.returncode != 0
    assert "other.org/x=1" in other.stderr
    assert "example.com/nic" in other.stderr


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


def test_the_stages_of_a_run_are_printed_on_request(running: LiveBox) -> None:
    command = [sys.executable, "-m", "marathon_cli", "run", "--", "true"]
    env = {**running.env, oneoff.VARIABLE: f"{time.time()}"}
    printed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True).stderr
    stages = [stage for stage, _ in oneoff.read(printed)]
    assert stages[:2] == ["program begun", "asked for"]
    assert {"TASK_FINISHED", "removed"} <= set(stages)
