"""What advice is held against: the cores of a master and a Marathon, and every other change.

`python -m tests.support.marathon.advice --from 500 --to 1499` does that for the random clusters of these seeds, with
both generators, goes on after one for which it does not hold, and ends with a line that sums up.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence

from mesos_gpu.marathon.simulation.smallest_change import advise
from mesos_gpu.marathon.why.change import Change
from tests.support.marathon.every_change import Every
from tests.support.marathon.stuck_in_order import ME, stuck_cluster

GENERATORS = {"roles": False, "plain": True}
"""Of clusters with several roles, and of those with one; the value is `plain` of stuck_cluster."""
FIRST = 500
"""The seed of the first cluster."""


def advice_holds(seed: int, *, plain: bool = False) -> Change:
    """Return what is advised on this cluster, once it has started the app and no smaller change has. AssertionError."""
    cluster = stuck_cluster(seed, plain=plain)
    scenario = cluster.scenario()
    change = advise(scenario, ME)
    assert change is not None, f"seed {seed}: nothing is advised"
    smaller = Every(scenario).smaller(change)
    assert smaller is None, f"seed {seed}: {change.text}: {smaller} is smaller"
    assert cluster.started_by(change.steps), f"seed {seed}: {change.text}: it does not start"
    return change


def main(words: Sequence[str] | None = None) -> int:
    """Hold the advice of many clusters; return 1 where some does not hold, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.marathon.advice", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=FIRST, metavar="SEED", help="the first seed (500)")
    parser.add_argument("--to", dest="last", type=int, default=FIRST + 99, metavar="SEED", help="the last seed (599)")
    parser.add_argument("--generator", choices=[*GENERATORS, "both"], default="both", help="of which clusters (both)")
    asked = parser.parse_args(words)
    names = list(GENERATORS) if asked.generator == "both" else [asked.generator]
    failed: list[str] = []
    kinds: Counter[str] = Counter()
    for seed in range(asked.first, asked.last + 1):
        for name in names:
            began_s = time.monotonic()
            try:
                change = advice_holds(seed, plain=GENERATORS[name])
            except Exception:
                failed.append(f"{name} {seed}")
                print(f"{name} {seed}: FAILED", traceback.format_exc(), sep="\n", flush=True)
                continue
            kinds.update(step.kind for step in change.steps)
            took_s = time.monotonic() - began_s
            print(f"{name} {seed}: {' + '.join(step.kind for step in change.steps)}, {took_s:.1f} s", flush=True)
    clusters = (asked.last + 1 - asked.first) * len(names)
    print(f"{clusters} clusters (seeds {asked.first} to {asked.last}, {' and '.join(names)}): {len(failed)} failed")
    print("steps advised:", ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) or "none")
    if failed:
        print("failed:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
