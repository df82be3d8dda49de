"""Histories have large pages where the kernel gives any, and are the same without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS = """
import re, sys
from pathlib import Path
from tests.sim import pages
kept = [bytes(1000) for _ in range(20_000)]
pages.enlarge()
kept += [bytes(1000) for _ in range(20_000)]
begin, _ = pages.heap()
large = 0
for part in re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
    if part.splitlines()[0].endswith("[heap]"):
        large += int(re.search(r"AnonHugePages: +([0-9]+) kB", part)[1])
print(large, all(one == bytes(1000) for one in kept))
"""


def played(**more: str) -> str:
    environment = {**os.environ, **more}
    command = [sys.executable, "-c", SAYS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def given() -> bool:
    """Tell whether this kernel gives large pages to who asks for them."""
    switch = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return switch.exists() and re.search(r"\[(always|madvise)\]", switch.read_text()) is not None


@pytest.mark.skipif(not given(), reason="this kernel gives no large pages")
def test_the_heap_lies_in_large_pages() -> None:
    large_kib, whole = played(PYTHONMALLOC="malloc").split()
    assert whole == "True"
    assert int(large_kib) > 20_000  # some of 40 MB may not be had at once


def test_whose_objects_lie_elsewhere_loses_nothing() -> None:
    assert played(PYTHONMALLOC="pymalloc").split()[1] == "True"
