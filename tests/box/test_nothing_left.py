"""Whoever leaves, in whatever way, leaves no box and no app behind."""

from __future__ import annotations

import os
import random
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


# A signal at the one moment in which a program has begun another and does not know of it yet.
AT_THAT_MOMENT = """
import os, runpy, signal, subprocess, sys
class Popen(subprocess.Popen):
    def __init__(self, command, *args, **more):
        super().__init__(command, *args, **more)
        if {mark!r} in str(command):
            os.kill(os.getpid(), {number})
subprocess.Popen = Popen
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = sys.argv[1:]
{run}
"""
ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_demo_that_is_left_as_it_has_just_begun_a_box_takes_it_down(number: signal.Signals, tmp_path: Path) -> None:
    code = AT_THAT_MOMENT.format(
        mark="'up'", number=int(number), run="runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    # What it begins has its output, so that this waits for all of it.
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLES / "demo.py")], env=env, capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 128 + number, done
    assert list(tmp_path.iterdir()) == []
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in processes


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_box_that_is_given_up_as_it_has_just_begun_is_none(number: signal.Signals, new_box: LiveBox) -> None:
    run = "from marathon_cli.main import main; sys.exit(main())"
    code = AT_THAT_MOMENT.format(mark="mesos_gpu.local", number=int(number), run=run)
    words = ("up", "--detach", "--gpu_driver=simulated", "--master_port=0", "--agent_port=0", "--marathon_port=0")
    command = [sys.executable, "-c", code, "mesos-gpu", *words]
    done = subprocess.run(command, env=new_box.env, capture_output=True, timeout=100, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (128 + number, False), done
    assert leftovers(new_box.work_dir) == []


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_box_that_is_given_up_at_any_moment_is_none(number: signal.Signals, new_box: LiveBox) -> None:
    words = ("--detach", "--gpu_driver=simulated", "--master_port=0", "--agent_port=0", "--marathon_port=0")
    command = [sys.executable, "-m", "marathon_cli", "up", *words]
    for _ in range(4):
        after_s = random.uniform(0.0, 2.0)
        with subprocess.Popen(command, env=new_box.env, stderr=subprocess.PIPE, preexec_fn=interruptible) as up:
            try:
                up.wait(after_s)
            except subprocess.TimeoutExpired:
                up.send_signal(number)
            up.communicate(timeout=100)
        if up.returncode == 0:  # it was up by then
            new_box.ok("down")
        assert leftovers(new_box.work_dir) == [], after_s


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
