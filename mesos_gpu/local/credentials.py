"""The credential of a box: made at its first start, in files of its work_dir that its owner alone can read.

Whoever can reach the loopback can reach a box's services, and its tasks may run as root: so by default the services ask
who is there. The command line finds the credential by itself; for other programs there are files in forms they read.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from mesos_gpu.base.files import PRIVATE, write_whole
from mesos_gpu.errors import Unavailable
from mesos_gpu.local.members import FOLDER as MEMBERS
from mesos_gpu.local.members import NETRC, SECRET, folder_of, lists, marathon_of

FOLDER = "access"
NAME = "box"
"""The principal of whoever brought the box up."""
MARATHON = "marathon"
"""The principal of the box's Marathon, to its master."""
OWNERS = (NAME, MARATHON)
ACLS = "acls.json"
MEMBER_OF = "member-"
PRIVATE_FOLDER = 0o700
_BYTES = 24


def prepare_credentials(work_dir: Path, members: Mapping[str, int] | None = None) -> None:
    """Make the files of a box's credential, with the secrets that it had if they are there.

    `members`: users who are let in, with their numbers; each gets files that he alone can read, and nobody else keeps
    any. Raises Unavailable when they cannot be written.
    """
    members = members or {}
    folder = work_dir / FOLDER
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)
        secret, of_marathon, _ = (_secret(folder / name) for name in ("secret", "marathon.secret", "executors.key"))
        known = [{"principal": NAME, "secret": secret}, {"principal": MARATHON, "secret": of_marathon}]
        ways_in = [_let_in(work_dir, name, uid) for name, uid in members.items()]
        for way in ways_in:
            known += way
        _write(folder / "mesos.json", json.dumps({"credentials": known}))
        # Marathon asks agents what its tasks use; those of members have nothing to ask them.
        _write(folder / "agents.json", json.dumps({"credentials": [*known[:2], *(way[0] for way in ways_in)]}))
        _write(folder / ACLS, json.dumps(lists(members, OWNERS)))
        _shut_out(work_dir, members)
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


def member_secret_file(work_dir: Path, member: str) -> Path:
    """Return where a member's Marathon finds the secret with which it comes to the master."""
    return work_dir / FOLDER / f"{marathon_of(member)}.secret"


def member_login_file(work_dir: Path, member: str) -> Path:
    """Return where a member's Marathon finds whom it lets in."""
    return work_dir / FOLDER / f"{MEMBER_OF}{member}.login"


def _let_in(work_dir: Path, name: str, uid: int) -> list[dict[str, str]]:
    """Make a member's files; return his credential, and that of his Marathon."""
    ours, his = work_dir / FOLDER, folder_of(work_dir, name)
    secret = _secret(ours / f"{MEMBER_OF}{name}.secret")
    _write(member_login_file(work_dir, name), f"{name}:{secret}")
    # The folders stay ours, so that what is written there is written nowhere else.
    for path in (his.parent, his):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    _write(his / SECRET, secret, owner=uid)
    _write(his / NETRC, f"machine 127.0.0.1 login {name} password {secret}\n", owner=uid)
    of_marathon = _secret(member_secret_file(work_dir, name))
    return [{"principal": name, "secret": secret}, {"principal": marathon_of(name), "secret": of_marathon}]


def _shut_out(work_dir: Path, members: Mapping[str, int]) -> None:
    """Remove the ways in of those who are members no more; with a new secret they are not let in by the old one."""
    folders = (work_dir / MEMBERS).iterdir() if (work_dir / MEMBERS).is_dir() else ()
    for folder in [one for one in folders if one.name not in members]:
        for file in (SECRET, NETRC):
            (folder / file).unlink(missing_ok=True)
        folder.rmdir()
        (work_dir / FOLDER / f"{MEMBER_OF}{folder.name}.secret").unlink(missing_ok=True)
        member_login_file(work_dir, folder.name).unlink(missing_ok=True)


def _secret(path: Path) -> str:
    try:
        known = path.read_text().strip()
    except FileNotFoundError:
        known = ""
    if not known:
        known = secrets.token_urlsafe(_BYTES)
        write_whole(path, known.encode())
    return known


def _write(path: Path, text: str, owner: int | None = None) -> None:
    """Replace a file that only `owner` can read. Not durable: it is written again whenever the box starts."""
    mode = PRIVATE if owner is None else 0o400
    write_whole(path, text.encode(), mode=mode, owner=owner, durable=False)
