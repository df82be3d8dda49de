"""Finds the box that runs on this machine, by the note it leaves in its work_dir."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from mesos_gpu.errors import Unavailable

_ADVICE = "Start one with `mesos-gpu up`, or name another Marathon with --marathon-url or MARATHON_URL"


def default_work_dir(environ: Mapping[str, str]) -> Path:
    """Return where the box keeps its state: MESOS_GPU_WORK_DIR, else mesos-gpu in the user's state folder."""
    if named := environ.get("MESOS_GPU_WORK_DIR"):
        return Path(named).expanduser()
    state = environ.get("XDG_STATE_HOME")
    # A relative XDG path is to be ignored (XDG base directory specification).
    home = Path(state) if state and state.startswith("/") else Path("~/.local/state").expanduser()
    return home / "mesos-gpu"


SYSTEM_WORK_DIR = Path("/var/lib/mesos-gpu/box")
"""Where a box lies that is for more than who started it (`mesos-gpu up --system`): everybody's commands look there."""


def found_work_dir(environ: Mapping[str, str], system: Path = SYSTEM_WORK_DIR) -> Path:
    """Return the work_dir of the box that is meant: the one that is named, else one's own, else the machine's.

    The machine's counts where it runs and one's own does not.
    """
    own = default_work_dir(environ)
    if environ.get("MESOS_GPU_WORK_DIR") or is_up(own) or not is_up(system):
        return own
    return system


def is_up(work_dir: Path) -> bool:
    """Return whether a box runs in a work_dir, as far as we may know."""
    try:
        return _runs(int(json.loads((work_dir / "box.json").read_bytes())["pid"]))
    except (OSError, ValueError, TypeError, LookupError):
        return False


CREDENTIAL_NAME = "box"
"""The name that goes with a box's secret; mesos_gpu/local/credentials.py makes both."""


def box_login(work_dir: Path) -> tuple[frozenset[str], str] | None:
    """Return the URLs of the box that runs in `work_dir`, and the secret that its services ask for.

    None when no box runs there, it asks nobody, or its secret is not ours to read.
    """
    try:
        box = json.loads((work_dir / "box.json").read_bytes())
        secret = "" if box.get("open", True) else (work_dir / "access" / "secret").read_text().strip()
        urls = frozenset(str(one["url"]) for one in (box["master"], box["marathon"], *box["agents"]))
        alive = _runs(int(box["pid"]))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return (urls, secret) if secret and alive else None


def find_marathon(work_dir: Path) -> str:
    """Return the URL of the Marathon of the box in `work_dir`. Raises Unavailable when no box runs there."""
    note = work_dir / "box.json"
    try:
        box = json.loads(note.read_bytes())
        pid, url = int(box["pid"]), str(box["marathon"]["url"])
    except FileNotFoundError:
        raise Unavailable(f"no box runs in {work_dir}. {_ADVICE}") from None
    except PermissionError:
        raise Unavailable(f"the box in {work_dir} belongs to another user. {_ADVICE}") from None
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise Unavailable(f"{note} cannot be read ({error}). {_ADVICE}") from None
    if not _runs(pid):
        raise Unavailable(f"the box in {work_dir} no longer runs (its process {pid} is gone). {_ADVICE}")
    return url


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
