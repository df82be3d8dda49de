"""`simulated ROOT CONTROL CARD=BYTES[=SOCKET]...`: run by path with `python -S`, without site-packages."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [str(Path(__file__).absolute().parents[2]), *sys.path[1:]]
    from mesos_gpu.simulated import daemon

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    root, control, *words = sys.argv[1:]
    cards = {}
    for word in words:
        card, size, path = (*word.split("=", 2), "")[:3]
        cards[int(card)] = (int(size), path)
    daemon.main(root, control, cards)
