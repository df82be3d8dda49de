"""Builds what `pip install` takes into dist/: .venv/bin/python tools/make_wheels.py

Our wheel and sdist with man pages and completions, and the wheel of compat/http-parser, without which pymesos does
not install on Python >= 3.11. A folder or an index that holds the three is enough:
pip install --find-links dist mesos-gpu
Beside them the compiled codec of native/, for mesos-gpu[codec]: its sdist, and its wheel for this kind of machine where
there is a C compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools import make_codec, make_extras

ROOT = Path(__file__).resolve().parents[1]


def main(dist: Path = ROOT / "dist") -> None:
    """Build them anew."""
    make_extras.main()
    shutil.rmtree(dist, ignore_errors=True)
    # What an earlier build left would be taken into this one.
    compat, native, both = ROOT / "compat" / "http-parser", ROOT / "native", ("--sdist", "--wheel")
    for folder in (ROOT, compat, native):
        shutil.rmtree(folder / "build", ignore_errors=True)
    why = make_codec.lacking()
    if why is not None:
        print(f"make_wheels: no wheel of the compiled codec: {why}", file=sys.stderr)
    # By default the wheel is built from the sdist, in which nothing is required by a path of this machine.
    for source, kinds in ((ROOT, ()), (compat, ("--wheel",)), (native, both if why is None else ("--sdist",))):
        subprocess.run([sys.executable, "-m", "build", "-o", dist, *kinds, source], check=True, stdout=sys.stderr)
    for path in sorted(dist.iterdir()):
        print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}  {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
