"""The main job, start to end: bring the box up, run simple-gpu-test.json on a GPU of its own, shut it all down.

`./run demo` runs this. It types the same commands that you would, and shows them.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

MESOS_GPU = Path(sys.executable).with_name("mesos-gpu")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TABLES = 2
# The first line of every table that nvidia-smi prints, real or simulated.
TABLE_MARK = b"NVIDIA-SMI"
QUIET_S = 1.0


def show(*words: str) -> list[str]:
    """Print a command as a person would type it, and return it as one that runs."""
    print(f"\n$ mesos-gpu {' '.join(words)}", flush=True)
    return [str(MESOS_GPU), *words]


def follow_until_printed(app: str, times: int) -> None:
    """Show the task's stdout until the nvidia-smi table has been printed so many times."""
    log = subprocess.Popen(show("task", "log", app, "--follow"), stdout=subprocess.PIPE)
    if log.stdout is None:
        raise RuntimeError("a pipe was asked for")
    shown = b""
    try:
        # Once the last table has begun, its end is the first quiet second: tables come 5 s apart.
        while select.select([log.stdout], [], [], QUIET_S if shown.count(TABLE_MARK) >= times else None)[0]:
            data = os.read(log.stdout.fileno(), 65536)
            if not data:
                raise SystemExit(f"the log of {app} ended after {shown.count(TABLE_MARK)} of {times} tables")
            shown += data
            print(data.decode(errors="replace"), end="", flush=True)
    finally:
        log.terminate()
        log.wait()
        log.stdout.close()


def bring_up(*more: str) -> None:
    """Bring a box up. Ctrl-C does not reach the command: half a box would be nobody's, a whole one is taken down."""
    command = show("up", "--detach", *more)
    came: list[int] = []
    # At no moment may the command have begun and we not know of it: signals are heard when we do.
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = {number: was for number, was in before.items() if was != signal.SIG_IGN}
    up = None
    try:
        try:
            for number in heard:
                signal.signal(number, lambda late, _frame: came.append(late))
            up = subprocess.Popen(command, start_new_session=True)
        finally:
            for number, was in heard.items():
                signal.signal(number, was)
        for late in came:
            signal.raise_signal(late)
        status = up.wait()
    except BaseException:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        if up is not None:
            up.wait()
        raise
    if status:
        raise subprocess.CalledProcessError(status, "up")


def put_away(work_dir: str) -> None:
    """Take the box down, if there is one, whatever happens meanwhile: also when nobody reads what we write any more."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    if not (Path(work_dir) / "box.json").exists():
        return
    try:
        command = show("down", "--purge", "--yes")
    except OSError:
        command = [str(MESOS_GPU), "down", "--purge", "--yes"]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
            os.dup2(nowhere, descriptor)
    subprocess.run(command, check=True, start_new_session=True)


def leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End as Ctrl-C does it: with the box taken down."""
    raise SystemExit(128 + number)


def run_on_a_box(work_dir: str, app: str, *look: str, up: tuple[str, ...] = ()) -> int:
    """Bring a box up, run examples/APP.json, show what `look` shows and two tables, shut it down; return the status."""
    os.environ["MESOS_GPU_WORK_DIR"] = work_dir
    os.environ.pop("MARATHON_URL", None)
    app_file = os.path.relpath(Path(__file__).resolve().parent / f"{app}.json")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        try:
            bring_up("--master_port=0", "--agent_port=0", "--marathon_port=0", *up)
            subprocess.run(show("ui", "--print"), check=True)
            subprocess.run(show("app", "add", app_file, "--wait"), check=True)
            subprocess.run(show(*look), check=True)
            follow_until_printed(app, TABLES)
        finally:
            put_away(work_dir)
    except subprocess.CalledProcessError as error:
        # The command has said why, on stderr.
        return int(error.returncode)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    return 0


def next_commands(environ: Mapping[str, str], program: str | None) -> list[str]:
    """Return what to type after the demo; `program` is the path of mesos-gpu that a shell finds."""
    commands = [] if "SUDO_UID" not in environ else ["sudo -s"]
    if program is None:
        commands.append("./run install")
    return [*commands, "mesos-gpu up --detach"]


def main() -> int:
    """Run the demo; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-demo-") as folder:
        status = run_on_a_box(folder, "simple-gpu-test", "task", "list")
    if status == 0:
        print("\nTo start a cluster that stays up (docs/start/first-five-minutes.md):")
        for command in next_commands(os.environ, shutil.which("mesos-gpu")):
            print(f"  {command}")
    return status


if __name__ == "__main__":
    sys.exit(main())
