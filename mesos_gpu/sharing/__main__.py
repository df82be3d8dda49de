"""`turner FOLDER`: run by path with `python -S`, without site-packages."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:] = [str(Path(__file__).absolute().parents[2]), *sys.path[1:]]
    from mesos_gpu.sharing import turner

    turner.main(sys.argv[2])
