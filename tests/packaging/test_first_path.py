"""README and the first guide, typed as printed, in a fresh clone in a fresh Debian: a plain shell, no venv active."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.packaging.debian import Debian
from tests.support.pages import blocks
from tests.support.places import ROOT
from tools.make_recording import PAGE, STEPS
from tools.record_first_minute import pip_settings

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLONE = Path("/root/mesos-gpu")
ENDED = re.compile(rb"\x01(\d+)\x01\n")


def commands(page: Path) -> list[str]:
    """Return the commands that a page prints, one a line, in their order."""
    shown = (block for block in blocks(ROOT, page) if block.language in ("sh", "console"))
    return [line for block in shown for line in block.commands().splitlines()]


class Shell:
    """A bash in a Debian, in the clone, with no variables but those that every shell has."""

    def __init__(self, debian: Debian, *, own_network: bool) -> None:
        """`own_network`: with free ports, and nothing but loopback."""
        self._typed = debian.root / "root" / "typed"
        command = debian.command("bash", "--noprofile", "--norc")
        if own_network:
            command = ["unshare", "--net", "sh", "-c", f"ip link set lo up && exec {shlex.join(command)}"]
        env = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **pip_settings()[0]}
        self._bash = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.type(f"cd {CLONE}", 0)

    def type(self, command: str, status: int | None) -> str:
        """Run a command that has to end with a status, None: any; return what it prints."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._typed.write_text(command)
        self._bash.stdin.write(b'eval "$(cat /root/typed)" </dev/null; printf "\\1%s\\1\\n" $?\n')
        self._bash.stdin.flush()
        said = b""
        while (ended := ENDED.search(said)) is None:
            line = self._bash.stdout.readline()
            assert line, f"the shell ended in `{command}`: {said.decode()[-3000:]}"
            said += line
        text = said[: ended.start()].decode()
        assert status in (None, int(ended[1])), f"`{command}` ended with {ended[1].decode()}: {text[-3000:]}"
        return text

    def close(self) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        self._bash.wait(60)
        self._bash.stdout.close()


@contextlib.contextmanager
def shell(debian: Debian, *, own_network: bool) -> Iterator[Shell]:
    made = Shell(debian, own_network=own_network)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def clone(debian: Debian, source: Path) -> Iterator[Debian]:
    """A Debian with a clone in it that nothing was done in."""
    at = debian.root / CLONE.relative_to("/")
    subprocess.run(["git", "clone", "-q", source, at], check=True)
    for certificate in pip_settings()[1]:
        shutil.copy(certificate, debian.root / certificate.relative_to("/"))
    yield debian
    shutil.rmtree(at)


@pytest.mark.root
@pytest.mark.timeout(900)
def test_the_readme_and_the_first_guide_work_as_printed(clone: Debian) -> None:
    readme, guide = commands(ROOT / "README.md"), commands(PAGE)
    assert readme.pop(1) == "./run test"  # CI itself types it
    with shell(clone, own_network=False) as plain:
        shown = {command: plain.type(command, 0) for command in readme}
    assert (readme[0], *next_commands(shown[readme[0]])) == ("./run demo", *readme[1:], guide[1])
    statuses = {step.command: step.status for step in STEPS}
    with shell(clone, own_network=True) as plain:
        try:
            for command in guide:
                plain.type(command, statuses.get(command, 0))
        finally:
            plain.type(".venv/bin/mesos-gpu down --purge --yes", None)
        plain.type("./run uninstall", 0)
    assert [path.name for path in (clone.root / "usr/local/bin").iterdir()] == []


def next_commands(demo: str) -> Sequence[str]:
    """Return the commands that the demo's last lines tell to type."""
    _, _, last = demo.rpartition(":\n")
    return [line.strip() for line in last.splitlines()]
