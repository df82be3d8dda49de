"""Runs a benchmark and keeps its figures in benchmarks/results, with the machine, load, date and commit.

    ./run bench record launch [--as NAME] [--note TEXT] [-- --runs 30]

What follows `--` goes to the benchmark. --as keeps the run beside the plain one, under a name of its own: image-2gib.
Then docs/why/measurements.md is written again. Exits with 1 when the benchmark kept no figure. What is ended before it
is done (Ctrl-C, `timeout`) keeps the figures that it had by then, and says that these are not all.
"""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks.kept import machine
from benchmarks.kept.results import RESULTS, Run
from benchmarks.kept.running import BenchCut, BenchFailed, run
from tools import make_measurements

CUT = "It was ended before it was done: these are not all of its figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="such as launch")
    parser.add_argument("--as", dest="name", help="keep it under this name (default: the benchmark's)")
    parser.add_argument("--note", default="", help="what else there is to know of this run")
    # By hand: argparse takes what follows -- for unknown where an option stands before it.
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    asked, arguments = parser.parse_args(words[:end]), words[end + 1 :]
    before, commit = machine.load(), machine.commit()
    # Whoever starts this in the background, or ends it by `timeout`, gets what a Ctrl-C gives.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    note = asked.note.rstrip(".")
    try:
        figures = run(asked.bench, arguments)
    except BenchFailed as error:
        raise SystemExit(str(error)) from error
    except BenchCut as cut:
        if not cut.figures:
            raise SystemExit(f"{cut}, and had kept no figure") from None
        figures, note = list(cut.figures), ". ".join(filter(None, (note, CUT)))
    load = (before, machine.load())
    kept = Run(asked.bench, arguments, machine.today(), commit, machine.facts(), load, figures, note)
    path = RESULTS / f"{asked.name or asked.bench}.json"
    path.write_text(kept.to_text())
    make_measurements.main()
    print(f"{len(figures)} figures kept in {path}; docs/why/measurements.md is written again")


if __name__ == "__main__":
    main()
