"""Whoever leaves, in whatever way, leaves no box and no app behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.box.live import LiveBox, leftovers
from tests.support.places import EXAMPLES

pytestmark = pytest.mark.root


def interruptible() -> None:
    """Let Ctrl-C be heard, which a shell turns off for what it starts in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGHUP], ids=["closed pipe", "Ctrl-C", "no terminal"])
def test_a_demo_that_is_left_takes_its_box_down(number: signal.Signals | None, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=interruptible,
    ) as demo:
        assert demo.stdout is not None
        while b"mesos-gpu up" not in demo.stdout.readline():
            pass
        if number is None:
            demo.stdout.close()
        else:
            os.killpg(demo.pid, number)  # while the box comes up
        status = demo.wait(100)
        assert status != 0 if number is None else status == 128 + number
    assert list(tmp_path.iterdir()) == []
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in processes


def test_a_box_that_is_given_up_while_it_comes_up_is_none(new_box: LiveBox) -> None:
    ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
    command = [sys.executable, "-m", "marathon_cli", "up", "--detach", "--gpu_driver=simulated", *ports]
    with subprocess.Popen(command, env=new_box.env, stderr=subprocess.PIPE, preexec_fn=interruptible) as up:
        log = new_box.work_dir / "log" / "master.log"
        new_box.until("it has begun", log.exists)
        up.send_signal(signal.SIGINT)
        _, said = up.communicate(timeout=60)
    assert (up.returncode, b"Traceback" in said) == (130, False), said
    assert leftovers(new_box.work_dir) == []


def test_a_run_whose_reader_goes_leaves_no_app(new_box: LiveBox) -> None:
    new_box.up("--gpu_driver=simulated")
    with tempfile.TemporaryFile() as errors:
        command = [
            sys.executable,
            "-m",
            "marathon_cli",
            "run",
            "--",
            "sh",
            "-c",
            "while echo again; do sleep 0.1; done",
        ]
        with subprocess.Popen(command, env=new_box.env, stdout=subprocess.PIPE, stderr=errors) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"again\n"
            run.stdout.close()
            assert run.wait(60) != 0
        errors.seek(0)
        assert b"Traceback" not in errors.read()
    assert new_box.ok("app", "list", "-q") == ""
