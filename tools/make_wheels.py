"""Builds what `pip install` takes into dist/: .venv/bin/python tools/make_wheels.py

Our wheel and sdist with man pages and completions, and the wheel of compat/http-parser, without which pymesos does
not install on Python >= 3.11. A folder or an index that holds the three is enough:
pip install --find-links dist mesos-gpu
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools import make_extras

ROOT = Path(__file__).resolve().parents[1]


def main(dist: Path = ROOT / "dist") -> None:
    """Build them anew."""
    make_extras.main()
    shutil.rmtree(dist, ignore_errors=True)
    # What an earlier build left would be taken into this one.
    for left in (ROOT / "build", ROOT / "compat" / "http-parser" / "build"):
        shutil.rmtree(left, ignore_errors=True)
    for source, kinds in ((ROOT, ("--sdist", "--wheel")), (ROOT / "compat" / "http-parser", ("--wheel",))):
        subprocess.run([sys.executable, "-m", "build", "-o", dist, *kinds, source], check=True, stdout=sys.stderr)
    for path in sorted(dist.iterdir()):
        print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}  {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
