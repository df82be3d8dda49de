"""The credential of a box: made at its first start, in files of its work_dir that its owner alone can read.

Whoever can reach the loopback can reach a box's services, and its tasks may run as root: so by default the services ask
who is there. The command line finds the credential by itself; for other programs there are files in forms they read.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from mesos_gpu.errors import Unavailable

FOLDER = "access"
NAME = "box"
"""The principal of whoever brought the box up."""
MARATHON = "marathon"
"""The principal of the box's Marathon, to its master."""
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_BYTES = 24


def prepare_credentials(work_dir: Path) -> None:
    """Make the files of a box's credential, with the secrets that it had if they are there.

    Raises Unavailable when they cannot be written.
    """
    folder = work_dir / FOLDER
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)
        secret, of_marathon, _ = (_secret(folder / name) for name in ("secret", "marathon.secret", "executors.key"))
        known = [{"principal": NAME, "secret": secret}, {"principal": MARATHON, "secret": of_marathon}]
        _write(folder / "mesos.json", json.dumps({"credentials": known}))
        # Marathon's own principal has nothing to ask agents.
        _write(folder / "agents.json", json.dumps({"credentials": known[:1]}))
        _write(folder / "login", f"{NAME}:{secret}")
        _write(folder / "netrc", f"machine 127.0.0.1 login {NAME} password {secret}\n")
    except OSError as error:
        raise Unavailable(f"cannot write the box's credential to {folder}: {error.strerror}") from None


def credential(work_dir: Path) -> tuple[str, str] | None:
    """Return name and secret of the box in `work_dir`; None when it asks nobody, or is not for us to read."""
    try:
        secret = (work_dir / FOLDER / "secret").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return (NAME, secret) if secret else None


def hint(work_dir: Path) -> str:
    """Return what a service of the box says to somebody whom it does not know."""
    folder = work_dir / FOLDER
    return (
        f"This box belongs to who started it, and asks for the credential in {folder}. mesos-gpu finds it by itself, "
        f"for who may read it. curl: --netrc-file {folder}/netrc. pymesos: principal='{NAME}', "
        f"secret=open('{folder}/secret').read(). A browser: the name {NAME}, and as password what {folder}/secret has. "
        "`mesos-gpu up --open` needs no credential."
    )


def _secret(path: Path) -> str:
    try:
        known = path.read_text().strip()
    except FileNotFoundError:
        known = ""
    if not known:
        known = secrets.token_urlsafe(_BYTES)
        _write(path, known)
    return known


def _write(path: Path, text: str) -> None:
    """Replace a file, whole or not at all; at no moment can others read it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)
