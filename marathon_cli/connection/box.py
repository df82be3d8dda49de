"""Finds the box that runs on this machine, by the note it leaves in its work_dir."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
        return _runs(int(_read((work_dir / "box.json").read_bytes())["pid"]))
    except (OSError, ValueError, TypeError, LookupError):
        return False


_ENTER_S = 60.0
CREDENTIAL_NAME = "box"
"""The name that goes with a box's secret; mesos_gpu/local/credentials.py makes both."""


class BoxLogin(NamedTuple):
    """How one comes into a box: the URLs of its services, the name and the file of the secret that goes with it."""

    urls: frozenset[str]
    name: str
    file: Path
    secret: str


def box_login(work_dir: Path) -> BoxLogin | None:
    """Return how we come into the box that runs in `work_dir`: as its owner, else as a member of its group.

    None when no box runs there, it asks nobody, or it does not let us in.
    """
    try:
        box = _read((work_dir / "box.json").read_bytes())
        if box.get("open", True) or not _runs(int(box["pid"])):
            return None
        services = [box["master"], *box["agents"]]
        name, file, marathon = CREDENTIAL_NAME, work_dir / "access" / "secret", str(box["marathon"]["url"])
        if not os.access(file, os.R_OK) and (member := _member(work_dir)) is not None:
            name, file = member
            marathon = _enter(str(box["control"]))
        secret = file.read_text().strip()
        urls = frozenset([marathon, *(str(one["url"]) for one in services)])
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return BoxLogin(urls, name, file, secret) if secret else None


def _member(work_dir: Path) -> tuple[str, Path] | None:
    """Return our name as a member of the group that a box lets in, and the file of our secret; None for others."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    file = work_dir / "members" / name / "secret"
    return (name, file) if os.access(file, os.R_OK) else None


def _enter(control: str) -> str:
    """Return the URL of our own Marathon in a box; its supervisor, which the kernel tells who we are, starts it.

    Raises OSError, ValueError, LookupError.
    """
    from mesos_gpu.base.linux.sockets import LineConnection, connect  # for members of a group alone

    with LineConnection(connect(control, timeout_s=_ENTER_S)) as line:
        answer = _read(line.ask(b'{"ask": "enter"}'))
    if "error" in answer:
        raise Unavailable(str(answer["error"]))
    return str(answer["marathon"])


def find_marathon(work_dir: Path) -> str:
    """Return the URL of the Marathon of the box in `work_dir`. Raises Unavailable when no box runs there."""
    note = work_dir / "box.json"
    try:
        box = _read(note.read_bytes())
        pid, url = int(box["pid"]), str(box["marathon"]["url"])
    except FileNotFoundError:
        raise Unavailable(f"no box runs in {work_dir}. {_ADVICE}") from None
    except PermissionError:
        raise Unavailable(f"the box in {work_dir} belongs to another user. {_ADVICE}") from None
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise Unavailable(f"{note} cannot be read ({error}). {_ADVICE}") from None
    if not _runs(pid):
        raise Unavailable(f"the box in {work_dir} no longer runs (its process {pid} is gone). {_ADVICE}")
    if not os.access(work_dir / "access" / "secret", os.R_OK) and box.get("control") and _member(work_dir) is not None:
        try:
            return _enter(str(box["control"]))
        except (OSError, ValueError, LookupError) as error:
            raise Unavailable(f"the box in {work_dir} does not answer at {box['control']}: {error}") from None
    return url


def _read(note: bytes) -> Any:
    """Return what a note or an answer says. Raises ValueError."""
    import json  # every command looks for a note; what only prints, and where there is none, need not read one

    return json.loads(note)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
