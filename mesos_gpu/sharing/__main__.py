"""`turner FOLDER`, or `card SOCKET CGROUPS_ROOT`: run by path with `python -S`, without site-packages."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [str(Path(__file__).absolute().parents[2]), *sys.path[1:]]
    if sys.argv[1] == "turner":
        from mesos_gpu.sharing import turner

        turner.main(sys.argv[2])
    else:
        from mesos_gpu.sharing import simulated_card

        simulated_card.main(sys.argv[2], sys.argv[3])
