"""`mesos-gpu task exec` and its kin in the containers of a real box, from pipes and from a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from marathon_cli.connection.http import HttpClient
from marathon_cli.oneoff.session import Answers
from mesos_gpu.mesos.clients.process_io import output_of
from tests.support.box.live import LiveBox, nothing_left
from tests.support.marathon_cli.scripted_server import ScriptedServer, scripted_server
from tests.support.terminal import terminal

pytestmark = pytest.mark.root

APP = {"id": "train", "cmd": "echo hello; echo oops >&2; exec sleep 100000", "cpus": 0.1, "mem": 64, "gpus": 2}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    """A box with one app on two of four GPUs, for all tests here."""
    made = LiveBox(tmp_path_factory.mktemp("hands") / "box")
    with nothing_left(made):
        made.up("--gpu_driver=simulated", "--simulated_gpus=4")
        made.add(APP)
        yield made


def run(box: LiveBox, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "marathon_cli", *words]
    return subprocess.run(argv, env=box.env, input=stdin, capture_output=True, timeout=60, check=False)


def exec_argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "marathon_cli", "task", "exec", *words]


def test_exec_passes_output_errors_and_the_exit_status_on(box: LiveBox) -> None:
    done = run(box, "task", "exec", "train", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_exec_of_a_command_that_a_signal_ends_has_the_status_of_a_shell(box: LiveBox) -> None:
    assert run(box, "task", "exec", "train", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


def test_exec_sees_the_gpus_of_the_task_and_no_others(box: LiveBox) -> None:
    done = run(box, "task", "exec", "train", "--", "nvidia-smi", "-L")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2


def test_exec_pipes_any_bytes_through_a_command(box: LiveBox) -> None:
    data = os.urandom(3_000_000)
    assert run(box, "task", "exec", "-i", "train", "cat", stdin=data).stdout == data


def test_exec_without_i_gives_the_command_no_input(box: LiveBox) -> None:
    done = run(box, "task", "exec", "train", "cat", stdin=b"not for it")
    assert (done.returncode, done.stdout) == (0, b"")


def test_exec_sets_variables_and_refuses_what_it_cannot_start(box: LiveBox) -> None:
    done = run(box, "task", "exec", "-e", "COLOUR=red", "train", "sh", "-c", "echo $COLOUR")
    assert done.stdout == b"red\n"
    refused = run(box, "task", "exec", "train", "no-such-program")
    assert refused.returncode != 0
    assert b"no-such-program" in refused.stderr


def test_ctrl_c_without_a_terminal_ends_us_and_the_command(box: LiveBox) -> None:
    argv = exec_argv("train", "sh", "-c", "echo begun; exec sleep 54321")
    process = subprocess.Popen(argv, env=box.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    box.until(
        "the command is ended", lambda: b"sleep 54321" not in run(box, "task", "exec", "train", "ps", "ax").stdout
    )


def test_a_terminal_passes_keys_and_sizes_on_and_is_put_back(box: LiveBox) -> None:
    with terminal() as tty:
        before = tty.modes()
        with tty.run(exec_argv("-it", "train", "sh", "-i"), {**box.env, "TERM": "xterm-256color"}) as process:
            tty.until(b"# ")
            assert tty.modes() != before
            tty.type(b"stty size; echo $TERM\r")
            tty.until(b"24 80\r\nxterm-256color")
            tty.resize(50, 132)
            tty.window_changed(process)
            tty.until(b"50 132", again=b"stty size\r")
            tty.type(b"sleep 4242\r")
            tty.until(b"sleep 4242\r\n")
            tty.type(b"\x03")
            tty.until(b"^C\r\n# ", again=b"\x03")  # a shell that is just starting it loses a Ctrl-C
            tty.type(b"exit 7\r")
            assert tty.end(process) == 7
        assert tty.modes() == before


def test_a_terminal_without_input_leaves_ctrl_c_to_us(box: LiveBox) -> None:
    with terminal() as tty:
        with tty.run(exec_argv("-t", "train", "sh", "-c", "echo begun; exec sleep 4243"), box.env) as process:
            tty.until(b"begun")
            tty.type(b"\x03")
            assert tty.end(process) == 130
        assert b"interrupted" in tty.said


def test_detach_keys_leave_a_session(box: LiveBox) -> None:
    with terminal() as tty:
        before = tty.modes()
        with tty.run(exec_argv("-it", "--detach-keys=ctrl-x,y", "train", "sh"), box.env) as process:
            tty.until(b"# ")
            tty.type(b"echo \x18\x18y")
            assert tty.end(process) == 0
        assert b"detached" in tty.said
        assert tty.modes() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_us_puts_the_terminal_back(box: LiveBox, number: signal.Signals) -> None:
    with terminal() as tty:
        before = tty.modes()
        with tty.run(exec_argv("-it", "train", "sh"), box.env) as process:
            tty.until(b"# ")
            process.send_signal(number)
            assert tty.end(process) == 128 + number
        assert tty.modes() == before


def test_a_task_that_ends_under_a_session_gives_the_terminal_back(box: LiveBox) -> None:
    box.add({**APP, "id": "short", "gpus": 0})
    with terminal() as tty:
        before = tty.modes()
        with tty.run(exec_argv("-it", "short", "sh"), box.env) as process:
            tty.until(b"# ")
            removing = threading.Thread(target=box.ok, args=("app", "remove", "short"))
            removing.start()
            assert tty.end(process) != 0
            removing.join()
        assert tty.modes() == before


def test_a_task_on_a_terminal_is_attached_to_left_and_found_again_by_a_new_agent(box: LiveBox) -> None:
    line = 'echo begun; while read line; do echo "heard $line on $(stty size)"; done; echo over; sleep 100000'
    box.add({**APP, "id": "typed", "gpus": 1, "tty": True, "cmd": line})
    box.until("it has begun", lambda: "begun" in box.ok("task", "log", "typed"))
    argv = [sys.executable, "-m", "marathon_cli", "task", "attach", "--detach-keys=ctrl-x,y", "typed"]
    (agent,) = (agent["pid"] for agent in box.status()["agents"])
    with terminal() as tty:
        tty.resize(33, 99)
        with tty.run(argv, box.env) as process:
            tty.until(b"one on 33 99\r\n", again=b"one\r")
            looking = subprocess.Popen([*argv, "--no-stdin"], env=box.env, stdout=subprocess.PIPE)
            assert looking.stdout is not None
            tty.type(b"shared\r")
            while not select.select([looking.stdout], [], [], 1.0)[0]:
                tty.type(b"shared\r")  # it may have just begun to look
            assert b"shared" in looking.stdout.readline()
            looking.send_signal(signal.SIGINT)
            looking.communicate(timeout=60)
            tty.type(b"\x18y")
            assert tty.end(process) == 0
            assert b"it continues" in tty.said
    os.kill(agent, signal.SIGKILL)
    box.until("another agent", lambda: box.status()["agents"][0]["pid"] not in (None, agent))
    box.until("it knows the task", lambda: run(box, "task", "exec", "typed", "true").returncode == 0)
    with terminal() as tty, tty.run(argv, box.env) as process:
        tty.until(b"heard again on 24 80\r\n", again=b"again\r")
        tty.type(b"\x04")
        tty.until(b"over\r\n")
        tty.type(b"\x03")
        tty.end(process, again=b"\x03")
    box.ok("app", "remove", "typed")


def test_attach_to_a_task_without_a_terminal_says_what_to_do(box: LiveBox) -> None:
    done = run(box, "task", "attach", "train")
    assert done.returncode == 1
    assert b'"tty": true' in done.stderr


def test_a_name_that_means_no_or_several_tasks_is_refused_with_candidates(box: LiveBox) -> None:
    assert b"did you mean train?" in run(box, "task", "exec", "trian", "true").stderr
    box.add({**APP, "id": "trainer", "gpus": 0, "instances": 2})
    several = run(box, "task", "exec", "trainer", "true")
    tasks = [task["id"] for task in json.loads(box.ok("task", "list", "trainer", "--json"))]
    assert several.returncode == 1
    assert all(task.encode() in several.stderr for task in tasks)
    assert run(box, "task", "exec", tasks[0][:40], "true").returncode == 0
    box.ok("app", "remove", "trainer")


def test_files_of_a_task_are_listed_and_copied_out(box: LiveBox, tmp_path: Path) -> None:
    assert run(box, "task", "exec", "train", "sh", "-c", "mkdir -p out; echo 42 > out/answer").returncode == 0
    assert box.ok("task", "ls", "train", "out").split() == ["answer"]
    box.ok("task", "download", "train", "out", "std*", "--target-dir", str(tmp_path))
    assert (tmp_path / "out/answer").read_text() == "42\n"
    assert (tmp_path / "stderr").read_text() == "oops\n"
    assert box.ok("task", "log", "train", "out/answer") == "42\n"


def test_metrics_show_each_gpu_of_the_task(box: LiveBox) -> None:
    rows = [line.split() for line in box.ok("task", "metrics", "train", "--interval", "0.1").splitlines()]
    assert [row[:2] for row in rows if row[0] == "gpu" and row[2] != "mem"] == [["gpu", "0"], ["gpu", "1"]]


def container_of_the_app(box: LiveBox) -> dict[str, Any]:
    (task,) = requests.get(f"{box.status()['master']['url']}/tasks?task_id={box.tasks('train')[0]['id']}").json()[
        "tasks"
    ]
    return task["statuses"][-1]["container_status"]["container_id"]  # type: ignore[no-any-return]


def session(parent: dict[str, Any], name: str, command: str) -> dict[str, Any]:
    """Return the call for a command on a terminal of 10 rows and 40 columns."""
    body = {
        "container_id": {"value": name, "parent": parent},
        "command": {"shell": True, "value": command},
        "container": {"type": "MESOS", "tty_info": {"window_size": {"rows": 10, "columns": 40}}},
    }
    return {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": body}


def test_a_command_on_a_terminal_may_be_over_at_once(box: LiveBox) -> None:
    agent, parent = HttpClient(box.status()["agents"][0]["url"], what="Mesos agent"), container_of_the_app(box)
    for number in range(8):
        answers = Answers(agent, session(parent, f"quick-{number}", "echo over"))
        said = b"".join(output.data for record in answers.records() if (output := output_of(record)))
        answers.close()
        assert said == b"over\r\n"


@contextmanager
def task_with_terminal(box: LiveBox, command: str) -> Iterator[ScriptedServer]:
    """A master that shows one task: a process with a terminal in a container of the box's real agent."""
    agent = box.status()["agents"][0]["url"]
    call = session(container_of_the_app(box), "terminal", command)
    container_id = call["launch_nested_container_session"]["container_id"]
    owner = Answers(HttpClient(agent, what="Mesos agent"), call)
    listening = threading.Thread(target=lambda: list(owner.records()))
    listening.start()
    try:
        with scripted_server() as master:
            statuses = [{"state": "TASK_RUNNING", "container_status": {"container_id": container_id}}]
            shown = {"id": "lone.instance-1", "slave_id": "S1", "state": "TASK_RUNNING", "statuses": statuses}
            address = agent.removeprefix("http://")
            master.on("GET", "/tasks", {"tasks": [shown]})
            master.on("GET", "/slaves", {"slaves": [{"id": "S1", "hostname": "h", "pid": f"slave(1)@{address}"}]})
            yield master
    finally:
        owner.leave()
        listening.join()
        owner.close()


def test_attach_types_into_a_task_and_leaves_it_running(box: LiveBox) -> None:
    argv = [sys.executable, "-m", "marathon_cli", "task", "attach", "lone"]
    with task_with_terminal(box, "PS1='at> ' exec sh -i") as master, terminal() as tty:
        env = {**box.env, "MESOS_URL": master.url}
        before = tty.modes()
        with tty.run(argv, env) as process:
            tty.until(b"ctrl-p,ctrl-q leaves it")
            tty.until(b"at> ", again=b"\r")
            tty.type(b"KEPT=42\r")
            tty.until(b"24 80", again=b"stty size\r")
            refused = subprocess.run(argv, env=env, input=b"", capture_output=True, timeout=60, check=False)
            assert refused.returncode == 1
            assert b"somebody else types into task lone.instance-1 already" in refused.stderr
            tty.type(b"\x10\x11")
            assert tty.end(process) == 0
        assert b"it continues" in tty.said
        assert tty.modes() == before
        with tty.run(argv, env) as process:
            tty.until(b"kept:42", again=b"echo kept:$KEPT\r")
            tty.type(b"exit\r")
            assert tty.end(process) == 0
        assert tty.modes() == before
