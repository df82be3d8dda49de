"""Folders for what pytest's own will not do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that anybody may enter, and remove it; those of pytest are closed."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="mesos-gpu-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
