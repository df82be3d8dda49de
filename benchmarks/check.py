"""Runs the quick benchmarks and says which ratio moved by more than a quarter since benchmarks/baseline.json was kept.

    ./run bench check [NAME...] [--keep]

A ratio is of ours to a baseline in the same run, so a slower machine moves it little. What moved is measured once more,
and told when it moved the same way again. --keep writes what is measured into baseline.json: after a change that meant
it, on a quiet machine.

Exits with 0 when nothing is worse, 1 when a ratio is, 2 when a benchmark could not be run here (that comes before 1).
It is for people: CI neither runs it nor fails by it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kept import drift, machine
from benchmarks.kept.figures import Figure
from benchmarks.kept.running import BenchFailed, run

BASELINE = Path(__file__).with_name("baseline.json")
QUICK: Mapping[str, Sequence[str]] = {
    "box": ("--ups", "3", "--idle", "3"),
    "cli": ("--alone", "--rounds", "7"),
    "container": ("--runs", "15"),
    "image": ("--runs", "3", "--layers", "3"),
    "isolator": ("--rounds", "400"),
    "launch": ("--runs", "10"),
    "master": ("--agents", "1000", "--rounds", "5", "--tasks", "100", "--idle", "20"),
    "throughput": ("--tasks", "40", "--gpus", "4", "--rounds", "1"),
    "wire": ("--seconds", "0.5"),
}
"""What is run, with arguments that make it short: all together two to three minutes."""

NOTHING_WORSE, WORSE, NOT_RUN = 0, 1, 2


def look(bench: str, kept: Mapping[str, float]) -> tuple[list[Figure], list[drift.Moved]]:
    """Run a benchmark, and once more where a ratio moved; return its figures and what moved both times."""
    figures = run(bench, QUICK[bench], quiet=True)
    first = drift.moved(kept, figures)
    if not first:
        return figures, []
    again = run(bench, QUICK[bench], quiet=True)
    return again, drift.both(first, drift.moved(kept, again))


def check(names: Sequence[str], *, keep: bool) -> int:
    """Run them, print what moved, and return how to exit."""
    document: dict[str, Any] = json.loads(BASELINE.read_text())
    worse = not_run = False
    for name in names:
        kept: Mapping[str, float] = document["ratios"].get(name, {})
        try:
            figures, moved = look(name, {} if keep else kept)
        except BenchFailed as error:
            print(f"{name}: not run: {error}", flush=True)
            not_run = True
            continue
        if keep:
            document["ratios"][name] = drift.ratios(figures)
            document["taken"][name] = {
                "date": machine.today(),
                "commit": machine.commit(),
                "load": machine.load(),
                "arguments": list(QUICK[name]),
            }
            print(f"{name}: {len(document['ratios'][name])} ratios kept", flush=True)
            continue
        worse = worse or any(one.worse for one in moved)
        same = len(drift.ratios(figures)) - len(moved) - len(drift.not_kept(kept, figures))
        print(f"{name}: {same} ratios as they were" + (f", {len(moved)} moved" if moved else ""), flush=True)
        for one in moved:
            print(f"  {one.sentence()}", flush=True)
        for what, keys in (
            ("kept and not measured", drift.not_measured(kept, figures)),
            ("measured and not kept", drift.not_kept(kept, figures)),
        ):
            if keys:
                print(f"  {what}: {', '.join(keys)}", flush=True)
    if keep:
        BASELINE.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    print(f"load now: {machine.load():g}")
    return NOT_RUN if not_run else WORSE if worse else NOTHING_WORSE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(sorted(QUICK))} (default: all)")
    parser.add_argument("--keep", action="store_true", help="write the ratios into baseline.json")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - QUICK.keys()):
        parser.error(f"no quick benchmark is called {', '.join(unknown)}; there are {', '.join(sorted(QUICK))}")
    raise SystemExit(check(asked.names or sorted(QUICK), keep=asked.keep))


if __name__ == "__main__":
    main()
