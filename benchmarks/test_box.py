"""How long a test waits for a box of mesos_gpu.testing, beside the same services as programs that each start anew.

    ./run bench test_box [--rounds 10] [--agents 2]

`first` is the first box of a test run, with the start of the process that services are forked from; `next` is any
further one. `programs` starts the same three programs as `mesos-gpu up` does: the master, then the agents together.
All are measured from the call until the master knows every agent.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.kept import figure
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.testing import plan
from mesos_gpu.testing.factory import BoxFactory, Home
from mesos_gpu.testing.fork_server import sweep
from mesos_gpu.testing.plan import BoxWishes, Program


def programs(folder: Path, agents: int) -> float:
    """Return how long a box takes whose services are programs of their own, and end it."""
    folder.mkdir()
    wishes = BoxWishes(agents=agents)
    began = time.perf_counter()
    running: list[subprocess.Popen[bytes]] = []

    def start(program: Program) -> None:
        with Path(program.log_file).open("wb") as log:
            command = [sys.executable, "-m", program.module, *program.argv()]
            running.append(subprocess.Popen(command, stdout=log, stderr=log))

    def ready(program: Program) -> str:
        while not Path(program.ready_file).exists():
            time.sleep(0.003)
        return Path(program.ready_file).read_text().partition("http://")[2].partition('"')[0]

    master = plan.master(wishes, folder)
    start(master)
    listed = plan.agents(wishes, folder, ready(master))
    for program in listed:
        start(program)
    for program in listed:
        ready(program)
    took = time.perf_counter() - began
    for process in running[1:]:
        process.send_signal(signal.SIGUSR1)
    for process in running[1:]:
        process.wait()
    running[0].terminate()
    running[0].wait()
    sweep(folder)
    shutil.rmtree(runtime_dir(folder))
    return took


LABELS = {"first": "first box of a test run (master, agents) until all are registered", "next": "any further box"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--agents", type=int, default=2)
    given = arguments.parse_args()
    first, later, apart, ends = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-bench-") as folder:
        for number in range(given.rounds):
            home = Home(Path(folder) / str(number))
            make = BoxFactory(home)
            for times in (first, later):
                began = time.perf_counter()
                box = make(agents=given.agents)
                times.append(time.perf_counter() - began)
                began = time.perf_counter()
                box.down()
                ends.append(time.perf_counter() - began)
            home.close()
            apart.append(programs(Path(folder) / f"programs-{number}", given.agents))
    for name, times in (("first", first), ("next", later), ("programs", apart), ("down", ends)):
        middle = statistics.median(times)
        if name in LABELS:
            beside = ("its services as programs of their own", statistics.median(apart))
            figure(name, f"{LABELS[name]}, median of {len(times)}", middle, "s", beside=beside)
        print(
            f"{name:<9} {middle:6.3f} s  (worst {max(times):.3f})  {middle / statistics.median(apart):5.2f} of programs"
        )


if __name__ == "__main__":
    main()
