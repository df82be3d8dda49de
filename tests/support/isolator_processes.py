"""Isolators in processes that are killed, fail to write, or compete for one folder. Single-threaded, so it can fork.

python -m tests.support.isolator_processes FOLDER MODE

Prints what happened, a JSON document per line. MODE is `kill`, `fail-once` or `fail-on`: the file operation at which a
process is killed, or that fails (and with `fail-on` all later ones), is the first, then the second, and so on until a
process gets through. `race` reads a JSON list per line from stdin, with the calls that each of several processes makes.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from mesos_gpu.base import file_locks
from mesos_gpu.errors import Conflict, MesosGpuError
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.support.gpu_records import records_in

DRIVER = SimulatedDriver(6)
WHOLE, SHARED = DRIVER.gpus()[:5], DRIVER.gpus()[5]
CARD = SharedCard(SHARED.index, SHARED.uuid, 15109, 25)
UNITS = 15
STEPS: list[tuple[str, str, int]] = [
    *(("prepare", "a", 2), ("prepare", "b", 1), ("share", "s", 6), ("update", "a", 4), ("update", "a", 1)),
    *(("prepare", "c", 2), ("cleanup", "b", 0), ("reshare", "s", 9), ("update", "c", 0), ("cleanup", "s", 0)),
    *(("share", "t", 15), ("prepare", "d", 3), ("cleanup", "a", 0)),
]


def open_isolator(folder: Path) -> tuple[NvidiaGpuIsolator, SharingIsolator]:
    whole = NvidiaGpuIsolator(WHOLE, DRIVER, None, Checkpoints(folder / "gpus"))
    return whole, SharingIsolator(whole, [SHARED], [CARD], ShareRecords(folder / "shares"))


def call(isolator: SharingIsolator, step: str, name: str, number: int) -> None:
    part = (CardPart(SHARED.index, number, 1),)
    match step:
        case "prepare":
            isolator.prepare(name, number)
        case "share":
            isolator.prepare(name, 0, share=Share(part))
        case "update":
            isolator.update(name, number)
        case "reshare":
            isolator.reshare(name, part)
        case _:
            isolator.cleanup(name)


def state(whole: NvidiaGpuIsolator, isolator: SharingIsolator) -> dict[str, Any]:
    return {
        "held": {name: sorted(gpu.index for gpu in gpus) for name, gpus in whole.held.items()},
        "units": {name: sum(part.mem_units for part in share.parts) for name, share in isolator.shares.items()},
        "free": len(whole.free),
    }


def after(folder: Path) -> dict[str, Any]:
    """Return what the next process finds."""
    whole, isolator = open_isolator(folder)
    with isolator:
        return state(whole, isolator) | {"files": records_in(folder / "gpus") + records_in(folder / "shares")}


def at_operation(number: int, do: Callable[[], None]) -> Callable[[], None]:
    """Call `do` at file operation `number` and all later ones; return a function that stops this."""
    operations, active = count(1), [True]

    def operation(event: str, _: object) -> None:
        if (
            active[0]
            and (event == "open" or event.startswith(("os.", "fcntl.")))
            and event != "os.kill"
            and next(operations) >= number
        ):
            do()

    sync = os.fsync

    def fsync(descriptor: int) -> None:
        operation("os.fsync", ())
        sync(descriptor)

    os.fsync = fsync
    sys.addaudithook(operation)
    return lambda: active.__setitem__(0, False)


def in_child(do: Callable[[Callable[[object], None]], None]) -> tuple[int, list[Any]]:
    """Run a function in a forked process; return its exit status and its reports."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            do(lambda report: os.write(write, json.dumps(report).encode() + b"\n") and None)
            os._exit(0)
        except BaseException as error:
            os.write(write, json.dumps({"error": repr(error)}).encode() + b"\n")
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as reports:
        found = [json.loads(line) for line in reports]
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), found


def killed(folder: Path) -> None:
    for number in count(1):
        here = folder / str(number)

        def steps(report: Callable[[object], None], here: Path = here, number: int = number) -> None:
            at_operation(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            whole, isolator = open_isolator(here)
            for step in STEPS:
                report({"begins": step})
                call(isolator, *step)
                report(state(whole, isolator))

        status, reports = in_child(steps)
        print(json.dumps({"status": status, "reports": reports, "after": after(here)}))
        if status == 0:
            return


def failing(folder: Path, on: bool) -> None:
    for number in count(1):
        here = folder / str(number)
        here.mkdir(parents=True)

        def steps(report: Callable[[object], None], here: Path = here, number: int = number) -> None:
            failed: list[int] = []

            def fail() -> None:
                if on or not failed:
                    failed.append(errno.EIO if on else errno.ENOSPC)
                    raise OSError(failed[-1], os.strerror(failed[-1]))

            whole, isolator = open_isolator(here)
            works_again = at_operation(number, fail)
            for step in STEPS:
                before = state(whole, isolator)
                try:
                    call(isolator, *step)
                except MesosGpuError as error:
                    report({"step": step, "error": type(error).__name__, "before": before} | state(whole, isolator))
            works_again()
            report({"failures": len(failed)})
            for name in ("x", "y"):
                try:
                    isolator.prepare(name, 1)
                except MesosGpuError as error:
                    report({"full": type(error).__name__})
            report({"end": state(whole, isolator)})

        status, reports = in_child(steps)
        print(json.dumps({"status": status, "reports": reports, "after": after(here)}))
        if {"failures": 0} in reports:
            return


def races(folder: Path) -> None:
    """Run the calls of several processes; each then closes its isolator or is killed.

    The first to open the folder keeps it until all others have tried; these try again until they succeed.
    """
    file_locks.hold.__defaults__ = (0.0,)
    for number, line in enumerate(sys.stdin):
        here, pids, reads, processes = folder / str(number), [], [], json.loads(line)
        tried = mmap.mmap(-1, len(processes))
        for place, steps in enumerate(processes):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    one_of_a_race(here, steps, write, tried, place)
                finally:
                    os._exit(1)
            os.close(write)
            pids.append(pid)
            reads.append(read)
        found = []
        for pid, read in zip(pids, reads, strict=True):
            with os.fdopen(read) as reports:
                found.append([json.loads(text) for text in reports])
            os.waitpid(pid, 0)
        print(json.dumps({"pids": pids, "reports": found, "after": after(here)}), flush=True)


def one_of_a_race(folder: Path, steps: list[Any], write: int, tried: mmap.mmap, place: int) -> None:
    def report(what: object) -> None:
        os.write(write, json.dumps(what).encode() + b"\n")

    while True:
        try:
            whole, isolator = open_isolator(folder)
            break
        except Conflict as error:
            report({"conflict": str(error)})
        except BaseException as error:
            report({"error": repr(error)})
            return
        finally:
            tried[place] = 1
        time.sleep(0.005)
    while not all(tried[:]):
        time.sleep(0.001)
    for step in steps:
        try:
            call(isolator, *step)
        except MesosGpuError:
            continue
        except BaseException as error:
            report({"error": repr(error)})
        report({"step": step} | state(whole, isolator))
    if len(steps) % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    isolator.close()


if __name__ == "__main__":
    match sys.argv[2]:
        case "kill":
            killed(Path(sys.argv[1]))
        case "race":
            races(Path(sys.argv[1]))
        case mode:
            failing(Path(sys.argv[1]), mode == "fail-on")
