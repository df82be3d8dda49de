"""Shares of a card against what weights say, friendly and hostile, beside the same tenants without control.

    sudo ./run bench share [--seconds 30] [--weights 1:1 1:2 2:3 1:3 1:2:4]

Real processes in cgroups of their own keep a simulated card busy, whose one queue counts what each has used; the
program that gives turns freezes and thaws them, as an agent's does. A hostile tenant is the weakest one: a static
program with a cleared environment, of 8 processes with 16 kernels queued in each, that fork children with queues of
their own; the others keep 16 queued, for who is too slow to fill its turn on a busy machine has no claim to the rest
of it. What the hostile one has queued the card does in one piece of a quarter of a second: that is held against it, so
that its part is off by one such piece at any moment and never by more; `one queue` is how much that is of what it is
to have in the window. Two windows follow each other: policy 5, which leaves it to the card, and policy 2. Then every
policy, with parts of the card's whole time, for some leave a part of it empty; what a change takes, what a switch
costs, and what the program costs when nobody works. `--seconds 5` takes four and a half minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.kept import figure
from mesos_gpu.sharing.freezer import freeze, thaw
from tests.support.sharing.real_turns import RealTurns, freezer_v1, freezer_v2

SOURCE = Path(__file__).parents[1] / "tests" / "support" / "sharing" / "hostile.c"
NATIVE, WEIGHTED = 5, 2
PROCESSES, DEPTH, KERNEL_S = 8, 16, 0.002
SETTLE_S = 2.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def turns(folder: Path) -> Iterator[RealTurns]:
    tree, file = (v1, "freezer.state") if (v1 := freezer_v1()) else (freezer_v2(), "cgroup.freeze")
    if tree is None:
        raise SystemExit("this machine has no cgroup freezer")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        real = RealTurns(Path(name), tree, file)
        try:
            yield real
        finally:
            real.stop()


def hostile_program(folder: Path) -> list[str]:
    """Return the command of a hostile tenant, compiled; with env's path, for its environment is cleared."""
    program = folder / "hostile"
    subprocess.run(["cc", "-O2", "-static", "-o", program, SOURCE], check=True)
    return [shutil.which("env") or "/usr/bin/env", "-i", str(program)]


def measure(real: RealTurns, policy: int, seconds: float) -> tuple[list[float], float]:
    """Return the part of each tenant under a policy, and how much of the time the card was busy."""
    real.rules["policy"] = policy
    real.tell()
    real.shares(SETTLE_S)
    before, began_s = sum(real.used().values()), time.monotonic()
    found = real.shares(seconds)
    return found, (sum(real.used().values()) - before) / (time.monotonic() - began_s)


def error_of(found: Sequence[float], weights: Sequence[int]) -> float:
    """Return the largest difference of a part from its ideal, as a part of the ideal."""
    ideal = [weight / sum(weights) for weight in weights]
    return max((part / want - 1 for part, want in zip(found, ideal, strict=True)), key=abs)


def queue_of(weights: Sequence[int], seconds: float) -> float:
    """Return what a hostile tenant has queued when it is frozen, as a part of what it is to have in a window.

    The card does that as well, in one piece: a window that begins or ends beside one is off by so much at most.
    """
    return PROCESSES * DEPTH * KERNEL_S / (seconds * min(weights) / sum(weights))


def table(folder: Path, all_weights: Sequence[Sequence[int]], seconds: float) -> None:
    heads = ("no control", "error", "weighted", "error", "one queue", "card busy")
    print(
        f"{'weights':8}  {'tenants':8}  {heads[0]:>24}  {heads[1]:>7}  {heads[2]:>24}  {heads[3]:>7}  {heads[4]:>9}  "
        f"{heads[5]:>10}"
    )
    for weights in all_weights:
        for hostile in (False, True):
            with turns(folder) as real:
                for number, weight in enumerate(weights):
                    name = chr(ord("a") + number)
                    if hostile and weight == min(weights) and name == "a":
                        command = [*hostile_program(folder), real.socket, str(PROCESSES), str(DEPTH)]
                        real.tenant(name, weight, command=command)
                    else:
                        real.tenant(name, weight, depth=DEPTH if hostile else 2)
                without, _ = measure(real, NATIVE, min(seconds, 5.0))
                found, busy = measure(real, WEIGHTED, seconds)
            cells = [" ".join(f"{part:.3f}" for part in parts) for parts in (without, found)]
            errors = [f"{error_of(parts, weights):+.1%}" for parts in (without, found)]
            who = "hostile" if hostile else "friendly"
            queue = f"{queue_of(weights, seconds):.1%}" if hostile else ""
            ratio = ":".join(map(str, weights))
            what = f"weights {ratio}, {who} tenants: the largest error of a part of {seconds:g} s"
            off, loose = (100 * abs(error_of(parts, weights)) for parts in (found, without))
            note = f"what a tenant has queued is {queue}" if queue else ""
            figure(f"{ratio}, {who}", what, off, "%", beside=("no control", loose), note=note)
            print(
                f"{':'.join(map(str, weights)):8}  {who:8}  {cells[0]:>24}  {errors[0]:>7}  {cells[1]:>24}  "
                f"{errors[1]:>7}  {queue:>9}  {busy:>10.1%}",
                flush=True,
            )


POLICIES = (
    # policy, its name, slices of the card, weights, who is of high priority, the part of the card's time that each has
    (0, "fair", 4, (1, 1), "", (1 / 4, 1 / 4)),
    (1, "preemptive", 25, (1, 1), "", (1 / 2, 1 / 2)),
    (2, "weighted", 25, (1, 2), "", (1 / 3, 2 / 3)),
    (3, "fixed", 4, (1, 2), "", (1 / 4, 2 / 4)),
    (4, "weak", 25, (1, 2), "", (1 / 2, 1 / 2)),
    (5, "native", 25, (1, 2), "", (1 / 2, 1 / 2)),
    (2, "high, 80 %", 25, (1, 1), "b", (0.2, 0.8)),
)


def policies(folder: Path, seconds: float) -> None:
    """Print the parts of the card's time under every policy, beside no control and what they are to be."""
    print(f"{'policy':12}  {'weights':7}  {'no control':>12}  {'ideal':>12}  {'measured':>12}  {'off by points':>13}")
    for policy, name, max_inst, weights, high, ideal in POLICIES:
        with turns(folder) as real:
            for number, weight in enumerate(weights):
                real.tenant(tenant := chr(ord("a") + number), weight, depth=DEPTH)
                real.members[tenant]["high"] = tenant == high
            real.rules |= {"max_inst": max_inst, "prio_ratio": 80}
            windows = []
            for each in (NATIVE, policy):
                real.rules["policy"] = each
                real.tell()
                real.shares(SETTLE_S)
                before, began_s = real.used(), time.monotonic()
                real.shares(seconds if each == policy else min(seconds, 3.0))
                passed_s, after = time.monotonic() - began_s, real.used()
                windows.append([(after[one] - before[one]) / passed_s for one in real.members])
        without, found = windows
        cells = [" ".join(f"{part:.3f}" for part in parts) for parts in (without, ideal, found)]
        off = max((100 * (part - want) for part, want in zip(found, ideal, strict=True)), key=abs)
        said = ":".join(map(str, weights))
        figure(f"policy {name}", f"policy {name}, weights {said}: off its part of the card by", abs(off), "points")
        print(f"{name:12}  {said:7}  {cells[0]:>12}  {cells[1]:>12}  {cells[2]:>12}  {off:>+13.1f}", flush=True)


def change_ms(folder: Path) -> list[float]:
    """Return how long it takes from the word until a change of weight is decided and answered, in ms."""
    took = []
    with turns(folder) as real:
        real.tenant("a", depth=16, processes=4)
        real.tenant("b", 2)
        real.tell()
        real.until_frozen()
        for number in range(50):
            real.members["a"]["weight"] = 1 + number % 4
            began_s = time.monotonic()
            real.tell()
            took.append(1000 * (time.monotonic() - began_s))
    return took


def switch_us(folder: Path) -> list[float]:
    """Return what freezing and thawing a container of 8 busy processes takes, in microseconds."""
    took = []
    with turns(folder) as real:
        real.tenant("a", depth=16, processes=8)
        file = str(real.members["a"]["file"])
        for _ in range(200):
            began_s = time.monotonic()
            freeze(file)
            thaw(file)
            took.append(1e6 * (time.monotonic() - began_s))
    return took


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def costs(folder: Path, seconds: float) -> tuple[float, float]:
    """Return which part of a processor the program takes with nobody at work, and with two in contention."""
    with turns(folder) as real, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle_client:
        idle_client.connect(real.socket)  # a card that nobody has open ends
        before = cpu_s(real.turner.pid)
        time.sleep(seconds)
        idle = (cpu_s(real.turner.pid) - before) / seconds
        real.tenant("a")
        real.tenant("b")
        real.tell()
        real.until_frozen()
        before = cpu_s(real.turner.pid)
        real.shares(seconds)
        return idle, (cpu_s(real.turner.pid) - before) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each window of weighted turns is")
    parser.add_argument("--weights", nargs="+", default=["1:1", "1:2", "2:3", "1:3", "1:2:4"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(folder, [[int(word) for word in text.split(":")] for text in options.weights], options.seconds)
        policies(folder, options.seconds)
        changes = change_ms(folder)
        slices = f"two slices are {2 * 20} ms"
        print(f"a change of weight: {statistics.median(changes):.1f} ms, {max(changes):.1f} at most; {slices}")
        figure("change of weight", "a change of weight, until it is decided", statistics.median(changes), "ms")
        switches = switch_us(folder)
        print(f"a freeze and a thaw: {statistics.median(switches):.0f} us, {max(switches):.0f} at most")
        figure("freeze and thaw", "a freeze and a thaw of 8 processes", statistics.median(switches), "µs")
        idle, busy = costs(folder, min(10.0, options.seconds))
        print(f"the program: {idle:.2%} of a processor with nobody there, {busy:.2%} with two in contention")
        figure("program, idle", "the program, of a processor, with nobody there", 100 * idle, "%")
        figure("program, busy", "the program, of a processor, with two in contention", 100 * busy, "%")


if __name__ == "__main__":
    main()
