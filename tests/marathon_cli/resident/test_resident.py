"""A command that a helper carries out is as one that was started by itself; and nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marathon_cli.resident import frames
from marathon_cli.resident.ending import end_helpers
from tests.support.marathon_cli.residence import DIRECTLY, FRONT, PLAYER, REPOSITORY, Residence, until
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow
INTERRUPT, SUSPEND = b"\x03", b"\x1a"

WAYS = {
    "as it is": "exec",
    "umask": "umask 077; exec",
    "nice": "exec nice -n 5",
    "fewer files": "ulimit -n 99; exec",
    "no core": "ulimit -c 0; exec",
    "nohup": "exec nohup",
    "other folder": "cd /usr; exec",
    "folder that is gone": "mkdir gone; cd gone; rmdir ../gone; exec",
    "ignored Ctrl-C": "trap '' INT; exec",
    "time zone": "TZ=Asia/Shanghai; export TZ; exec",
    "C": "LANG=C; export LANG; exec",
    "no language": "unset LANG; exec",
    "language that is not there": "LC_ALL=xx_YY.UTF-8; export LC_ALL; exec",
    "unbuffered": "PYTHONUNBUFFERED=1; export PYTHONUNBUFFERED; exec",
    "output to a file": "exec >told; exec",
    "one processor": "exec taskset -c 0",
    "odd words": "ODD=$(printf 'a\\377b'); export ODD; exec",
}


def told(residence: Residence, command: list[str], way: str, folder: Path) -> object:
    folder.mkdir()
    env = {**residence.env, "PYTHONPATH": str(REPOSITORY)} if command == PLAYER else residence.env
    line = f"{way} {shlex.join([*command, 'why', 'tell', 'ünï', 'b c'])}"
    done = subprocess.run(
        ["sh", "-c", line], env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done
    text = (folder / "told").read_bytes() if (folder / "told").exists() else done.stdout
    found = json.loads(text)
    found["here"] = found["here"].replace(str(folder), "folder")
    for name in ("PYTHONPATH", "PWD", "OLDPWD"):
        found["environ"].pop(name, None)
    return found


def test_a_command_finds_itself_as_it_would_alone(residence: Residence) -> None:
    residence.player()
    for number, way in enumerate(WAYS.values()):
        ours = told(residence, FRONT, way, residence.folder / f"{number}-front")
        alone = told(residence, PLAYER, way, residence.folder / f"{number}-alone")
        assert ours == alone, way


@pytest.mark.parametrize(
    ("words", "status"),
    [("exit 0", 0), ("exit 7", 7), ("exit 300", 44), ("die 15", -15), ("die 9", -9), ("raise", 1), ("die 3", -3)],
)
def test_a_command_ends_as_it_does(residence: Residence, words: str, status: int) -> None:
    residence.player()
    assert residence.front(*words.split()).returncode == status


def test_what_a_command_writes_is_written_in_order_and_whole(residence: Residence) -> None:
    residence.player()
    assert residence.front("write", "300000").stdout == "x" * 300_000
    done = residence.front("say", "no")
    assert (done.stderr, done.returncode) == ("no\n", 1)


def shell(residence: Residence, line: str) -> subprocess.CompletedProcess[str]:
    env = {**residence.env, "CLI": shlex.join(FRONT)}
    return subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=60, cwd=REPOSITORY)


def test_pipes_into_and_out_of_a_command(residence: Residence) -> None:
    residence.player()
    assert shell(residence, 'seq 50000 | eval "$CLI" why cat | tail -n 1').stdout == "50000\n"
    done = shell(residence, '(eval "$CLI" why write 3000000; echo $? >&2) | head -c 5')
    assert done.stdout == "xxxxx"
    assert done.stderr.endswith("\n1\n"), "who reads has enough: a traceback of the player, as Python ends"
    assert shell(residence, 'eval "$CLI" why exit 5 >&-; echo $?').stdout == "2\n", "a closed stream goes directly"


def test_ctrl_c_is_the_command_s(residence: Residence) -> None:
    residence.player()
    terminal = Terminal()
    with terminal.run([*FRONT, "why", "wait", str(residence.folder / "n")], residence.env) as process:
        terminal.until(b"waiting")
        terminal.type(INTERRUPT)
        terminal.until(b"interrupted", again=INTERRUPT)
        assert terminal.end(process) == 130


def test_the_size_of_the_window_is_told(residence: Residence) -> None:
    residence.player()
    terminal = Terminal()
    with terminal.run([*FRONT, "why", "wait", str(residence.folder / "n")], residence.env) as process:
        terminal.until(b"waiting")
        terminal.resize(30, 111)
        terminal.until(b"size 111")
        terminal.type(INTERRUPT)
        assert terminal.end(process) == 130


def test_ctrl_z_stops_the_command_and_fg_lets_it_go_on(residence: Residence) -> None:
    residence.player()
    noted = residence.folder / "n"
    front = shlex.join([*FRONT, "why", "wait", str(noted)])
    terminal = Terminal()
    line = f"set -m; {front}; echo stopped $?; trap : INT; fg; echo ended $?"
    with terminal.run(["bash", "--norc", "-c", line], residence.env) as process:
        terminal.until(b"waiting")
        pid = int(noted.read_text())
        terminal.type(SUSPEND)
        terminal.until(b"stopped 148")
        until(lambda: state_of(pid) != "T", "fg has not let it go on")
        terminal.until(b"ended 130", again=INTERRUPT)
        terminal.end(process)
    assert not Path(f"/proc/{pid}").exists()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_command_is_stopped_with_its_front(residence: Residence) -> None:
    residence.player()
    noted = residence.folder / "n"
    with residence.begun("wait", str(noted)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        pid = int(noted.read_text())
        process.send_signal(signal.SIGTSTP)
        until(lambda: state_of(pid) == "T")
        process.send_signal(signal.SIGCONT)
        until(lambda: state_of(pid) == "S")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_a_command_whose_front_is_killed_is_hung_up(residence: Residence) -> None:
    residence.player()
    noted = residence.folder / "n"
    with residence.begun("wait", str(noted)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.kill()
    until(lambda: "hung up" in noted.read_text())
    assert residence.front("exit", "6").returncode == 6, "and the helper is there for the next"


def test_a_front_says_that_its_helper_was_killed(residence: Residence) -> None:
    helper = residence.player()
    noted = residence.folder / "n"
    with residence.begun("wait", str(noted)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        helper.kill()
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said.count("\n")) == (1, 1)
    assert "was ended, and the command with it" in said
    until(lambda: "hung up" in noted.read_text())
    assert DIRECTLY in residence.front("exit", "6").stderr, "what is left of it is in nobody's way"


def test_many_at_once_each_once(residence: Residence) -> None:
    residence.player()
    noted = residence.folder / "n"
    threads = [threading.Thread(target=residence.front, args=("note", str(noted), str(n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, noted.read_text().split())) == list(range(20))


@contextmanager
def false_helper(residence: Residence, answers: list[bytes]) -> Iterator[list[bytes]]:
    """Something listens in the helper's place, answers so after each thing that it hears, and hangs up."""
    heard: list[bytes] = []

    def serve() -> None:
        line, _ = listener.accept()
        with line:
            for answer in answers:
                heard.append(line.recv(1 << 20))
                if answer == b"silence":
                    line.recv(1)
                    return
                line.sendall(answer)

    residence.path  # noqa: B018 - makes the folder
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(residence.socket))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join()
    residence.socket.unlink()


@pytest.mark.parametrize("answers", [[], [b""], [frames.REFUSED + b"net"], [b"?"], [b"silence"]])
def test_who_has_not_said_go_carries_the_command_out(residence: Residence, answers: list[bytes]) -> None:
    with false_helper(residence, answers):
        done = residence.front("exit", "7")
    assert (done.returncode, done.stderr.count(DIRECTLY)) == (2, 1)


def test_who_has_said_go_does_not(residence: Residence) -> None:
    with false_helper(residence, [frames.READY, b""]) as heard:
        done = residence.front("exit", "7")
    assert heard[1] == frames.GO
    assert DIRECTLY not in done.stderr
    assert "how far it came is not known" in done.stderr


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: folder.chmod(0o755),
        lambda folder: folder.chmod(0o710),
        lambda folder: folder.rename(folder.with_name("x")).parent.joinpath("r").symlink_to("x"),
    ],
)
def test_a_folder_that_others_may_enter_is_not_used(residence: Residence, spoil: object) -> None:
    residence.player()
    spoil(residence.folder / "r")  # type: ignore[operator]
    assert DIRECTLY in residence.front("exit", "7").stderr


@pytest.mark.root
def test_a_folder_or_socket_of_somebody_else_is_not_used(residence: Residence) -> None:
    residence.player()
    socket_file = residence.socket
    os.chown(socket_file, 65534, -1)
    assert DIRECTLY in residence.front("exit", "7").stderr
    os.chown(socket_file, 0, -1)
    os.chown(residence.folder / "r", 65534, -1)
    assert DIRECTLY in residence.front("exit", "7").stderr


@pytest.mark.root
@pytest.mark.parametrize(
    "way",
    [
        "setpriv --no-new-privs",
        "setpriv --bounding-set=-sys_admin",
        "unshare --net",
        "unshare --mount",
        "unshare --uts",
        "env LD_LIBRARY_PATH=/nowhere",
        "env PYTHONPATH=.",
    ],
)
def test_a_process_of_another_kind_is_carried_out_by_itself(residence: Residence, way: str) -> None:
    residence.player()
    assert residence.front("exit", "7").returncode == 7
    command = [*way.split(), *FRONT, "why", "exit", "7"]
    done = subprocess.run(command, env=residence.env, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert DIRECTLY in done.stderr


@pytest.mark.root
def test_another_user_has_nothing_of_it(residence: Residence) -> None:
    residence.player()
    residence.folder.chmod(0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *FRONT, "why", "exit", "7"]
    done = subprocess.run(command, env=residence.env, cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode != 7


def test_a_helper_ends_by_itself(residence: Residence) -> None:
    assert residence.player(idle_s=0.2).wait(60) == 0
    assert not residence.socket.exists()
    helper = residence.player()
    assert end_helpers(residence.env) == 1
    assert helper.wait(60) == 0
    helper = residence.player()
    helper.terminate()
    assert helper.wait(60) == 0
    assert not residence.socket.exists()


def test_a_helper_that_is_asked_to_end_ends_after_what_it_has_begun(residence: Residence) -> None:
    helper = residence.player()
    noted = residence.folder / "n"
    with residence.begun("wait", str(noted)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert end_helpers(residence.env) == 1
        assert DIRECTLY in residence.front("exit", "7").stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert helper.wait(60) == 0


def test_a_helper_whose_code_or_settings_changed_refuses_and_ends(residence: Residence) -> None:
    settings = residence.folder / "config"
    helper = residence.player(also=[str(settings)])
    assert residence.front("exit", "7").returncode == 7
    settings.write_text("")
    assert DIRECTLY in residence.front("exit", "7").stderr
    assert helper.wait(60) == 0


def test_a_helper_without_its_folder_ends(residence: Residence) -> None:
    helper = residence.player(idle_s=1)
    shutil.rmtree(residence.folder / "r")
    assert helper.wait(60) == 0


def test_there_is_one_helper(residence: Residence) -> None:
    residence.player()
    second = subprocess.run([*PLAYER, residence.path], cwd=REPOSITORY, timeout=60, check=False)
    assert second.returncode == 0
    assert residence.front("exit", "7").returncode == 7


def test_the_second_call_starts_a_helper(residence: Residence) -> None:
    version = [*FRONT, "--version"]
    for _ in range(2):
        subprocess.run(version, env=residence.env, cwd="/", check=True, capture_output=True, timeout=60)
    until(residence.socket.exists)
    done = subprocess.run(version, env=residence.env, cwd="/", check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("mesos-gpu, version")
    assert end_helpers(residence.env) == 1


@pytest.mark.parametrize("how", ["variable", "profile"])
def test_it_can_be_turned_off(residence: Residence, how: str) -> None:
    if how == "variable":
        residence.env["MESOS_GPU_RESIDENT"] = "0"
    else:
        (residence.folder / "config").mkdir()
        (residence.folder / "config" / "config").write_text("use = p\n[p]\nresident = false\n")
    for _ in range(3):
        subprocess.run([*FRONT, "--version"], env=residence.env, cwd="/", check=True, capture_output=True, timeout=60)
    assert not Path(residence.path + ".lock").exists()
    assert end_helpers(residence.env) == 0


def test_the_way_there_imports_next_to_nothing() -> None:
    code = "import sys; import marathon_cli.start; from marathon_cli.resident import front; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", f"import sys; sys.path.append({str(REPOSITORY)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not {"enum", "re", "click", "typing", "pathlib", "socket", "json", "dataclasses"} & set(done.stdout.split())
