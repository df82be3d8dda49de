"""The main job, start to end: bring the box up, run simple-gpu-test.json on a GPU of its own, shut it all down.

`./run demo` runs this. It types the same commands that you would, and shows them.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

MESOS_GPU = Path(sys.executable).with_name("mesos-gpu")
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
        log.send_signal(signal.SIGINT)
        log.wait()
        log.stdout.close()


def run_on_a_box(work_dir: str, app: str, *look: str, up: tuple[str, ...] = ()) -> int:
    """Bring a box up, run examples/APP.json, show what `look` shows and two tables, shut it down; return the status."""
    os.environ["MESOS_GPU_WORK_DIR"] = work_dir
    os.environ.pop("MARATHON_URL", None)
    app_file = os.path.relpath(Path(__file__).resolve().parent / f"{app}.json")
    ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
    try:
        subprocess.run(show("up", "--detach", *ports, *up), check=True)
        try:
            subprocess.run(show("ui", "--print"), check=True)
            subprocess.run(show("app", "add", app_file, "--wait"), check=True)
            subprocess.run(show(*look), check=True)
            follow_until_printed(app, TABLES)
        finally:
            subprocess.run(show("down"), check=True)
    except subprocess.CalledProcessError as error:
        # The command has said why, on stderr.
        return int(error.returncode)
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> int:
    """Run the demo; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-demo-") as folder:
        return run_on_a_box(folder, "simple-gpu-test", "task", "list")


if __name__ == "__main__":
    sys.exit(main())
