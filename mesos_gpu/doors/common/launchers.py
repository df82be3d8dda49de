"""Small programs under names that others call: they find this installation and no other, whatever calls them."""

from __future__ import annotations

import sys
from pathlib import Path

from mesos_gpu.base.files import write_whole
from mesos_gpu.errors import Unavailable


def launcher_text(module: str, **keywords: str | None) -> str:
    """Return a program that calls `main` of a module with these keywords.

    Python's own variables, such as PYTHONPATH, which a container's image may set, do not reach it (-I).
    """
    given = ", ".join(f"{name}={value!r}" for name, value in keywords.items() if value is not None)
    return f"#!{sys.executable} -I\nfrom {module} import main\n\nraise SystemExit(main({given}))\n"


def write_launcher(folder: Path, name: str, module: str, **keywords: str | None) -> Path:
    """Write such a program; what another put there under that name stays. Raises Unavailable."""
    path = folder / name
    try:
        if path.exists() and "from mesos_gpu." not in path.read_text("latin-1"):
            raise Unavailable(f"{path} is there and not ours; remove it first, or choose another folder (--prefix)")
        write_whole(path, launcher_text(module, **keywords).encode(), mode=0o755, folder_mode=0o755)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}") from None
    return path
