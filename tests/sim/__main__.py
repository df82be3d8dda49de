"""Plays histories of a whole cluster: `./run sim --seed 7 --hours 2`, or as many seeds as there is time for."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.sim.folders import end_with_parent, memory, own_folder, sweep
from tests.sim.pages import enlarge

_STILL = 0x0040000
"""ADDR_NO_RANDOMIZE of personality(2): sets of objects, which are ordered by address, have the same order again."""
FRESH = 10**9
"""Fresh seeds are below; each history says its own."""
_clock = time.monotonic


def _processor_s() -> float:
    """Return the processor time of the histories that have ended: that of a busy machine passes more slowly."""
    spent = os.times()
    return spent.children_user + spent.children_system


def main() -> int:
    """Play, and say what was found; return 1 when something was."""
    parser = argparse.ArgumentParser(prog="./run sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument(
        "--minutes", type=float, default=None, help="instead: as many seeds as fit into this time of each processor"
    )
    parser.add_argument("--seconds", type=float, default=None, help="the same as --minutes, in seconds")
    parser.add_argument("--fresh", action="store_true", help="begin with a seed that nobody has chosen")
    parser.add_argument("--hours", type=float, default=1.0, help="hours in which things break, of a dense one")
    parser.add_argument("--pace", choices=("dense", "calm", "slow"), help="instead of what the seed says")
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=4, help="GPUs of each agent")
    parser.add_argument("--masters", type=int, default=None, help="instead of what the seed says")
    parser.add_argument("--marathons", type=int, default=None, help="of them, together with --masters")
    parser.add_argument("--shared", type=int, default=None, help="how many GPUs of each agent tasks share, instead")
    parser.add_argument("--people", type=float, default=None, help="mean seconds between acts of people, instead")
    parser.add_argument("--faults", type=float, default=None, help="mean seconds between faults, instead")
    parser.add_argument("--actors", nargs="*", metavar="ACTOR", help="these of docs/why/simulator.md, instead, or none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="histories at a time")
    parser.add_argument("--first", action="store_true", help="end when something broke")
    parser.add_argument(
        "--planted", nargs="*", metavar="DEFECT", help="instead: find these defects of tests/sim/defects.py, or all"
    )
    parser.add_argument("--unit", action="store_true", help="with --planted: find them with the unit tests instead")
    parser.add_argument("--parts", action="store_true", help="and print where the processor time of each history goes")
    parser.add_argument("--log", action="store_true", help="print every line of the history")
    wishes = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is put away
    for kept in {memory(), Path(tempfile.gettempdir())}:
        sweep(kept)
    if wishes.seconds is not None:
        wishes.minutes = wishes.seconds / 60
    if wishes.planted is not None:
        return _find_planted(wishes)
    _make_repeatable()
    if wishes.fresh:
        wishes.seed = secrets.randbelow(FRESH)
        print(f"fresh seeds, from {wishes.seed} on", flush=True)
    return _play_all(wishes)


def _make_repeatable() -> None:
    """Begin again with the hashes of texts and the addresses of objects as they always are."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        ctypes.CDLL(None).personality(_STILL)
        again = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        # Where objects lie depends on what lies before them: the environment is one for everybody.
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
        # Of malloc's one heap, unlike of Python's own many, large pages can be made (tests/sim/pages.py).
        os.execve(sys.executable, again, {**kept, "HOME": "/", "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"})


def _play_all(wishes: Any) -> int:
    from tests.sim import install

    install.install()
    # Imported once, and by nobody's clock: every history is a fork of this.
    import tests.sim.history  # noqa: F401

    began_s, context = _clock(), multiprocessing.get_context("fork")
    seeds = range(wishes.seed, sys.maxsize if wishes.minutes is not None else wishes.seed + wishes.seeds)
    told: Any = context.SimpleQueue()
    playing: dict[int, Any] = {}
    waiting = iter(seeds)
    with contextlib.ExitStack() as at_end:
        folder = at_end.enter_context(own_folder(memory()))
        at_end.callback(lambda: [process.join() for process in playing.values()])
        at_end.callback(lambda: [process.kill() for process in playing.values()])
        bad, hours, count = _play_each(wishes, waiting, playing, told, context, folder)
    took_s = _clock() - began_s
    spent_s = _processor_s()
    print(
        f"{count} histories of {hours:.1f} simulated hours in {took_s:.0f} s ({spent_s:.0f} s of processors,", end=" "
    )
    print(f"{hours / spent_s * 3600 if spent_s else 0:.0f} hours in an hour of one); {bad} broke something")
    return 1 if bad else 0


def _play_each(
    wishes: Any, waiting: Any, playing: dict[int, Any], told: Any, context: Any, folder: Path
) -> tuple[int, float, int]:
    """Play them; return how many broke something, how many hours they had, and how many there were."""
    bad, hours, count = 0, 0.0, 0
    while True:
        late = wishes.minutes is not None and _processor_s() > wishes.minutes * 60 * wishes.jobs
        late = late or (wishes.first and bad > 0)
        while len(playing) < wishes.jobs and not late:
            seed = next(waiting, None)
            if seed is None:
                break
            playing[seed] = context.Process(target=_play, args=(seed, wishes, told, folder / f"{seed:019d}"))
            playing[seed].start()
        if not playing:
            break
        seed, verdict, error = told.get()
        playing.pop(seed).join()
        if error is not None:
            print(f"seed {seed}: the simulator is at fault\n{error}", flush=True)
            bad += 1
            continue
        hours, count = hours + verdict.simulated_s / 3600, count + 1
        line = f"seed {seed}: {verdict.pace}, {verdict.simulated_s / 3600:.2f} h, {verdict.faults} faults,"
        print(f"{line} {verdict.calls} calls, {verdict.containers} containers, {verdict.digest[:16]}", flush=True)
        if verdict.findings:
            bad += 1
            print(f"  FOUND, again by {_again(seed, wishes)} --log:")
            for finding in verdict.findings:
                print("  - " + finding.replace("\n", "\n    "), flush=True)
    return bad, hours, count


def _again(seed: int, wishes: Any) -> str:
    """Return the command that plays a history again."""
    return " ".join(["./run sim", f"--seed {seed} --hours {wishes.hours:g}", *_said(wishes)])


def _said(wishes: Any) -> list[str]:
    """Return the words that say of histories what their seeds would say else."""
    words = []
    for name, default in (
        ("agents", 3),
        ("gpus", 4),
        ("people", None),
        ("faults", None),
        ("masters", None),
        ("shared", None),
        ("marathons", None),
    ):
        if getattr(wishes, name) != default:
            words += [f"--{name}", f"{getattr(wishes, name):g}"]
    if wishes.pace is not None:
        words += ["--pace", wishes.pace]
    return words if wishes.actors is None else [*words, "--actors", *wishes.actors]


def _find_planted(wishes: Any) -> int:
    from tests.sim.defects import DEFECTS
    from tests.sim.hunting import hunt
    from tests.sim.unit_hunt import hunt_with_unit_tests

    names = wishes.planted or list(DEFECTS)
    if unknown := [name for name in names if name not in DEFECTS]:
        print(f"there is no planted defect {', '.join(unknown)}; there are: {', '.join(DEFECTS)}", file=sys.stderr)
        return 2
    if wishes.unit:
        return hunt_with_unit_tests(names, jobs=wishes.jobs)
    missed = 0
    with own_folder(Path(tempfile.gettempdir())) as folder:
        for name in names:
            found = hunt(
                DEFECTS[name], folder, minutes=wishes.minutes or 10.0, seed=wishes.seed, hours=wishes.hours,
                words=_said(wishes),
            )  # fmt: skip
            missed += not found.found
            which = f"found by seed {found.seed}, " if found.found else "MISSED, "
            took = f"{found.histories} histories, {found.processor_s:.0f} s of a processor"
            print(f"{found.name}: {which}{took}: {found.said[:200]}", flush=True)
    return 1 if missed else 0


def _play(seed: int, wishes: Any, told: Any, root: Path) -> None:
    import traceback

    from tests.sim.history import Plan, play
    from tests.sim.parts import sampled, table

    end_with_parent()
    enlarge()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pauses, services = (wishes.people, wishes.faults), (wishes.masters, wishes.marathons)
    actors = None if wishes.actors is None else tuple(wishes.actors)
    plan = Plan(
        seed, wishes.hours, wishes.agents, wishes.gpus, *pauses, *services, actors, wishes.pace, wishes.shared,
        wishes.first,
    )  # fmt: skip
    counts: Counter[str] = Counter()
    try:
        with sampled(counts) if wishes.parts else contextlib.nullcontext():
            verdict = play(plan, root, listener=print if wishes.log else None)
        if wishes.parts:
            print(table(counts), flush=True)
        told.put((seed, verdict, None))
    except BaseException:
        told.put((seed, None, traceback.format_exc()))
    finally:
        shutil.rmtree(root, ignore_errors=True)
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
