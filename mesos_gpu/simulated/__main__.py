"""`simulated ROOT CONTROL [--mig FILE PROFILES] CARD=BYTES[=SOCKET]...`: by path with `python -S`, no site-packages.

PROFILES is JSON: by card the rows of `Profile` of one in MIG mode; FILE keeps the instances.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [str(Path(__file__).absolute().parents[2]), *sys.path[1:]]
    from mesos_gpu.simulated import daemon
    from mesos_gpu.simulated.division import Profile

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    root, control, *words = sys.argv[1:]
    divided, told = "", "{}"
    if words[:1] == ["--mig"]:
        _, divided, told, *words = words
    profiles = {int(card): [Profile(*row) for row in rows] for card, rows in json.loads(told).items()}
    cards = {}
    for word in words:
        card, size, path = (*word.split("=", 2), "")[:3]
        cards[int(card)] = (int(size), path)
    daemon.main(root, control, cards, profiles, divided)
