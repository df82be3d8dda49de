"""Has `mesos-gpu` of this Python's environment begin without Python's site: `.venv/bin/python tools/quick_start.py`.

pip's scripts begin with the whole of it, which takes 3 ms of 11. What needs it has it afterwards (quick, in
marathon_cli/start.py). A wheel cannot do this: pip writes the first line of scripts, without options.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

SCRIPT = """\
#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import sys
if sys.flags.no_site:
    sys.path.append({packages!r})
if __name__ == "__main__":
    from marathon_cli.start import quick
    quick()
elif sys.flags.no_site:
    import site
    site.main()
"""
"""For sh its second line is all; for Python that and the third are a string. Processes of a pool want its site."""


def text(python: Path, packages: Path) -> str:
    """Return the script for an interpreter, and the folder that `marathon_cli` lies in. Raises ValueError."""
    if any(char in str(python) for char in "\"$`\\'\n"):
        raise ValueError(f"{python} cannot stand in a script")
    return SCRIPT.format(python=python, packages=str(packages))


def main() -> None:
    """Write it over pip's."""
    import marathon_cli

    packages = Path(str(marathon_cli.__file__)).parent.parent
    script = Path(sysconfig.get_path("scripts")) / "mesos-gpu"
    try:
        script.write_text(text(Path(sys.executable), packages), encoding="utf-8")
    except ValueError:
        pass  # pip's own serves


if __name__ == "__main__":
    main()
