"""Starts the default executor: as a module, or as a file by a Python without site-packages, which starts faster."""

import sys
from pathlib import Path

if not __package__:
    # Run by path: our folder's modules must not hide the standard library's, and the package must be found.
    sys.path[0] = str(Path(__file__).absolute().parents[2])

from mesos_gpu.executor.main import main

if __name__ == "__main__":
    sys.exit(main())
