"""OCI runtimes: which one this machine has, and whether it works here."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from mesos_gpu.errors import BadInput, CutOff, MesosGpuError, Unavailable

RUNTIMES = ("crun", "runc")
"""In order of preference: crun takes a third of runc's CPU time for a start."""

MORE_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/libexec/podman")
"""Where programs may lie beside PATH, which lacks the sbin folders for many users."""

INITS = ("tini", "catatonit", "docker-init")
"""Programs that can be process 1 of a container: they reap, and pass on the exit status."""

IMAGE_INITS = ("tini-static", "catatonit", *(name for name in INITS if name != "catatonit"))
PT_INTERP = 3

log = logging.getLogger(__name__)


class _LogLine(msgspec.Struct):
    """One line of a runtime's log in its JSON format."""

    msg: str = ""
    level: str = ""


class Runtime(Struct, frozen=True):
    """One OCI runtime program."""

    name: str
    path: Path

    def arguments(self, bundle: Path) -> tuple[str, ...]:
        """Return its global arguments: what it keeps about the container lies in `bundle` and goes with it."""
        return (f"--root={bundle / 'state'}", f"--log={bundle / 'runtime.log'}", "--log-format=json")

    @property
    def leaves_cgroup(self) -> bool:
        """Return whether it can be told to leave a container in the cgroup that it itself was started in.

        Made so, a container is under its parent's device policy and no other. runc writes that policy a second time.
        """
        return self.name == "crun"

    @property
    def takes_compiled_filters(self) -> bool:
        """Return whether it takes a filter of system calls that it has compiled for another container."""
        return self.name == "crun"

    def filter_file(self, bundle: Path, container_id: str) -> Path:
        """Return the file in which it keeps the compiled filter of a container that runs."""
        return bundle / "state" / container_id / "seccomp.bpf"

    def starting(
        self, bundle: Path, enter: Sequence[Path] = (), console: Path | None = None, beside: Sequence[Path] = ()
    ) -> tuple[str, ...]:
        """Return the command that makes and starts a container, to which conmon appends `create --bundle ...`.

        A second process would have to `start` what `create` made. These words turn it into `run --detach`, with
        conmon's `create` as the value of a --pid-file that its own --pid-file, coming later, overrides. Measured with
        crun: 8.2 ms instead of 11.2. `enter` are the control files of cgroups to start in and stay in, `beside` those
        of cgroups to start in while the runtime makes the container's own, `console` the socket that the container's
        terminal is sent to.
        """
        terminal = () if console is None else (f"--console-socket={console}",)
        manager = ("--cgroup-manager=disabled",) if enter else ()
        run = (str(self.path), *self.arguments(bundle), *manager, "run", "--detach", *terminal, "--pid-file")
        return within((*beside, *enter), run)

    def entering(
        self, parent: Path, parent_id: str, bundle: Path, enter: Sequence[Path], cgroup: str | None
    ) -> list[str]:
        """Return the command that runs `bundle`/process.json in the container `parent_id`, whose bundle is `parent`.

        `cgroup` is where, below the container's own, None for whom it is enough to be started there; `enter` are the
        control files of the same.
        """
        own = (f"--root={parent / 'state'}", f"--log={bundle / 'runtime.log'}", "--log-format=json")
        return [
            *within(enter, (str(self.path), *own)),
            *(
                "exec",
                *(() if cgroup is None else (f"--cgroup={cgroup}",)),
                f"--process={bundle / 'process.json'}",
                f"--pid-file={bundle / 'pid'}",
            ),
        ]

    def complaint(self, bundle: Path) -> str | None:
        """Return what it logged as errors about the container of `bundle`, None when nothing."""
        try:
            lines = (bundle / "runtime.log").read_bytes().splitlines()
        except FileNotFoundError:
            return None
        complaints = []
        for line in lines:
            try:
                entry = msgspec.json.decode(line, type=_LogLine)
            except msgspec.DecodeError:
                entry = _LogLine(msg=line.decode(errors="replace"), level="error")
            if entry.level in ("error", "fatal", ""):
                complaints.append(entry.msg.strip())
        return "; ".join(dict.fromkeys(complaints)) or None


def within(control_files: Sequence[Path], command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that runs another in the cgroups with these control files."""
    if not control_files:
        return tuple(command)
    moves = " && ".join(f"echo $$ > {shlex.quote(str(file))}" for file in control_files)
    return ("/bin/sh", "-c", f'{moves} && exec "$@"', "sh", *command)


def find_program(name: str) -> Path | None:
    """Return the program's absolute path, looked up in PATH and in the usual folders."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *MORE_FOLDERS]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found).absolute() if found else None


def find_conmon() -> Path:
    """Return conmon's path. Raises Unavailable with what to install."""
    path = find_program("conmon")
    if path is None:
        raise Unavailable(
            "conmon is missing, which keeps watch over containers: apt install conmon, or dnf install conmon"
        )
    return path


def find_init() -> tuple[str, ...]:
    """Return the command that runs another as process 1 of a container. Raises Unavailable with what to install."""
    for name in INITS:
        path = find_program(name)
        if path is not None:
            return (str(path), "--")
    raise Unavailable(
        "a small init for containers is missing: apt install tini (or catatonit), or dnf install tini (or catatonit)"
    )


def find_image_init() -> tuple[str, ...]:
    """Return an init that works in any image, with its arguments: a program that needs no other file.

    Raises Unavailable with what to install.
    """
    for name in IMAGE_INITS:
        path = find_program(name)
        if path is not None and is_static(path):
            return (str(path.resolve()), "--")
    raise Unavailable(
        "containers in images need a statically linked init: apt install tini (it has tini-static) or catatonit, "
        "or dnf install tini-static or catatonit"
    )


def is_static(path: Path) -> bool:
    """Return whether a program is an ELF file that asks for no loader (PT_INTERP); elf(5) gives the format."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if data[:5] != b"\x7fELF\x02" or len(data) < 64:  # only 64 bits
        return False
    order = "<" if data[5] == 1 else ">"
    (offset,) = struct.unpack_from(f"{order}Q", data, 32)
    size, count = struct.unpack_from(f"{order}HH", data, 54)
    try:
        kinds = [struct.unpack_from(f"{order}I", data, offset + number * size)[0] for number in range(count)]
    except struct.error:
        return False
    return bool(kinds) and PT_INTERP not in kinds


TRIES = 3
"""How often a runtime is tried whose probe was killed."""


async def find_runtime(probe: Callable[[Runtime], Awaitable[None]], names: Sequence[str] = RUNTIMES) -> Runtime:
    """Return the first runtime for which `probe`, which is to run a real container, raises nothing.

    A probe that was cut off says nothing about its runtime and is run again, TRIES times in all: containers of an
    earlier process must not come under another runtime for it. Raises Unavailable: with what to install when none is
    there, when a probe is cut off each time, else with what each one said. BadInput in a probe is a mistake of ours and
    comes through.
    """
    refusals = []
    for name in names:
        path = find_program(name)
        if path is None:
            continue
        try:
            await _try(Runtime(name, path), probe)
        except CutOff as error:
            raise Unavailable(
                f"{path} was tried {TRIES} times and killed each time (is memory short?): {error}"
            ) from None
        except BadInput:
            raise
        except MesosGpuError as error:
            log.warning("%s does not work here: %s", path, error)
            refusals.append(f"{path}: {error}")
        else:
            return Runtime(name, path)
    if refusals:
        raise Unavailable(f"no OCI runtime can run a container on this machine; {'; '.join(refusals)}")
    raise Unavailable(
        "no OCI runtime is installed: apt install crun (or runc), or dnf install crun (or runc), and start again"
    )


async def _try(runtime: Runtime, probe: Callable[[Runtime], Awaitable[None]]) -> None:
    for _ in range(TRIES - 1):
        try:
            await probe(runtime)
        except CutOff as error:
            log.warning("trying %s again: %s", runtime.path, error)
        else:
            return
    await probe(runtime)
