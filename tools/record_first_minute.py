"""Records the first minute in a fresh Debian, from a clone, from wheels and from the Debian package.

    .venv/bin/python -m tools.record_first_minute [clone|wheel|deb ...]      (as root; 3 minutes each)

Each is a Debian of this machine's release that debootstrap makes in a folder, with nothing in it but Python; it has
this machine's kernel and network, and pip's index. The commands of STORIES are typed into a terminal there, each when
the one before has ended; what the terminal shows goes to docs/start/recordings, as text with the seconds that have
gone, and as an asciicast (version 2, which asciinema plays). A command that fails ends the recording, and nothing is
written.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.packaging.debian import Debian, bootstrapped
from tools import make_deb, make_wheels

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "docs" / "start" / "recordings"
WIDTH, HEIGHT = 110, 40
PATIENCE_S = 900.0
PORTS = (5050, 5051, 8080)
_READY = b"\x1b]133;A\x07"
"""What the shell writes before each prompt; terminals show nothing of it (semantic prompts, FinalTerm's OSC 133)."""
_ENDED = re.compile(rb"\x1b\]133;D;(\d+)\x07\x1b\]133;A\x07")
_LINE_TAKEN_BACK = "\x1b[1A\x1b[2K"
"""What progress writes when it is over: a line up, and that line is empty."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")

APT = "apt-get -qq update && apt-get -qq install -y --no-install-recommends"
LOOK = (
    "mesos-gpu gpu list",
    "mesos-gpu run -- nvidia-smi -L",
    "mesos-gpu app add {examples}/simple-gpu-test.json --wait",
    "mesos-gpu task list",
    "mesos-gpu task log simple-gpu-test | head -14",
    "mesos-gpu app remove simple-gpu-test --wait",
    "mesos-gpu down",
)
STORIES: Mapping[str, tuple[str, ...]] = {
    "clone": (
        f"({APT} git) >/dev/null 2>&1",
        "git clone -q /srv/mesos-gpu.git && cd mesos-gpu",
        "./run demo",
    ),
    "wheel": (
        f"({APT} python3-venv crun conmon tini) >/dev/null 2>&1",
        "python3 -m venv /opt/mesos-gpu && PATH=/opt/mesos-gpu/bin:$PATH",
        "pip install -q --use-pep517 --find-links /srv/dist mesos-gpu",
        "mesos-gpu up --detach",
        *(command.format(examples="/opt/mesos-gpu/share/mesos-gpu/examples") for command in LOOK),
    ),
    "deb": (
        f"({APT} /srv/dist/mesos-gpu_*.deb) >/dev/null 2>&1",
        "mesos-gpu up --detach",
        *(command.format(examples="/usr/share/doc/mesos-gpu/examples") for command in LOOK),
    ),
}
"""What is typed, by where it is installed from."""


class Shown(NamedTuple):
    """What the terminal showed, and so many seconds after the beginning."""

    at_s: float
    text: str


class Terminal:
    """A bash in a Debian, on a terminal of ours; keeps what it shows. A context manager."""

    def __init__(self, debian: Debian, env: Mapping[str, str], shared: Mapping[Path, Path]) -> None:
        """`shared`: folders and files of this machine, and where they are seen there."""
        self._debian, self._env, self._shared = debian, dict(env), shared
        self.shown: list[Shown] = []
        self._began_s = time.monotonic()

    def __enter__(self) -> Terminal:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            command = self._command()
            os.execvpe(command[0], command, self._env)
        self._until_ended()
        self.shown.clear()
        self._began_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._terminal, b"\x04")
        os.close(self._terminal)
        os.waitpid(self._pid, 0)

    def type(self, command: str) -> int:
        """Type a command; return the status that it ends with."""
        self._keep(f"$ {command}\n")
        os.write(self._terminal, command.encode() + b"\n")
        return self._until_ended()

    def _until_ended(self) -> int:
        """Keep what is shown until the prompt comes; return the status of what ran."""
        seen, deadline = b"", time.monotonic() + PATIENCE_S
        while True:
            if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise SystemExit(f"no prompt came within {PATIENCE_S:g} s; the last it showed: {seen[-2000:]!r}")
            seen += os.read(self._terminal, 65536)
            if (found := _ENDED.search(seen)) is not None:
                self._keep(seen[: found.start()].decode(errors="replace"))
                return int(found[1])
            # What is whole is kept with its time; an escape sequence, or a letter, may still be under way.
            cut = max(seen.rfind(b"\n"), seen.rfind(b"\r")) + 1
            if cut and b"\x1b]133" not in seen[:cut]:
                self._keep(seen[:cut].decode(errors="replace"))
                seen = seen[cut:]

    def _keep(self, text: str) -> None:
        if text:
            self.shown.append(Shown(time.monotonic() - self._began_s, text))

    def _command(self) -> list[str]:
        rc = self._debian.root / "root" / ".recording"
        ended = "printf '\\033]133;D;%d\\007\\033]133;A\\007' $?"
        rc.write_text(f"PS1=\nPROMPT_COMMAND={json.dumps(ended)}\nstty -echo cols {WIDTH} rows {HEIGHT}\n")
        mounts = "hostname debian; "
        for here, there in self._shared.items():
            target = self._debian.root / there.relative_to("/")
            (target if here.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
            if not here.is_dir():
                target.touch()
            mounts += f"mount --bind {here} {target} && "
        command = self._debian.command("bash", "-c", "cd; exec bash --noediting --rcfile /root/.recording -i")
        return ["unshare", "--uts", *command[:-1], mounts + command[-1]]


def pip_settings() -> tuple[dict[str, str], dict[Path, Path]]:
    """Return which index pip asks on this machine, and the authorities it trusts: variables, and files to share.

    Folders of packages that this machine has beside an index are not a newcomer's.
    """
    env = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_CERT") if name in os.environ}
    certificate = Path(env.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt"))
    return env, {certificate: certificate} if certificate.is_file() else {}


def told(shown: list[Shown]) -> str:
    """Return a recording as text: each line with the seconds that had gone when it came."""
    lines, line, at_s = [], "", 0.0
    for piece in shown:
        text = piece.text.replace(_LINE_TAKEN_BACK, "\0")
        for part in re.split(r"([\n\0])", _ESCAPES.sub("", text).replace("\r\n", "\n")):
            if part == "\0":
                lines.pop()
                continue
            if part != "\n":
                # What is written over its own line, such as progress, is told as it stood last.
                line = (line + part).rpartition("\r")[2]
                at_s = piece.at_s
                continue
            lines.append(f"{at_s:6.1f} s  {line.rstrip()}".rstrip())
            line, at_s = "", piece.at_s
    return "\n".join(lines) + "\n"


def asciicast(shown: list[Shown], title: str) -> str:
    """Return a recording as an asciicast, version 2."""
    head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title}
    events = ([round(at_s, 3), "o", text.replace("\r\n", "\n").replace("\n", "\r\n")] for at_s, text in shown)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *events))


@contextlib.contextmanager
def fresh_debian() -> Iterator[Debian]:
    """A Debian in a folder of its own, which is removed."""
    folder = Path(tempfile.mkdtemp(prefix="mesos-gpu-debian-"))
    try:
        yield bootstrapped(folder / "root")
    finally:
        # A debootstrap that was interrupted leaves /proc and /sys of this machine in there.
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
            subprocess.run(["umount", mount], check=True)
        shutil.rmtree(folder)


def record(story: str, debian: Debian, dist: Path) -> list[Shown]:
    """Type a story into a terminal of this Debian. Raises SystemExit when a command of it fails."""
    pip, shared = pip_settings()
    (debian.root / "srv").mkdir(exist_ok=True)
    if story == "clone":
        subprocess.run(["git", "clone", "-q", "--bare", ROOT, debian.root / "srv" / "mesos-gpu.git"], check=True)
    else:
        shared[dist] = Path("/srv/dist")
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "xterm"}
    env |= {"LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "PIP_ROOT_USER_ACTION": "ignore", **pip}
    with Terminal(debian, env, shared) as terminal:
        try:
            for command in STORIES[story]:
                if status := terminal.type(command):
                    raise SystemExit(f"{story}: `{command}` ended with {status}:\n{told(terminal.shown)[-4000:]}")
        except BaseException:
            terminal.type("mesos-gpu down")
            raise
        return terminal.shown


def main(stories: list[str]) -> None:
    """Record these stories, or all of them."""
    for port in PORTS:
        with socket.socket() as line:
            if line.connect_ex(("127.0.0.1", port)) == 0:
                raise SystemExit(f"something listens on port {port}, which a box takes by default: stop it first")
    RECORDINGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-dist-") as name:
        dist = Path(name)
        if set(stories or STORIES) - {"clone"}:
            make_wheels.main(dist)
            make_deb.main(dist)
        for story in stories or STORIES:
            with fresh_debian() as debian:
                shown = record(story, debian, dist)
            (RECORDINGS / f"{story}.txt").write_text(told(shown))
            (RECORDINGS / f"{story}.cast").write_text(asciicast(shown, f"mesos-gpu in a fresh Debian, by {story}"))
            print(told(shown))


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - set(STORIES):
        sys.exit(f"no such story: {', '.join(sorted(unknown))}; there are {', '.join(STORIES)}")
    main(sys.argv[1:])
