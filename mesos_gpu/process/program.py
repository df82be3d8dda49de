"""What every service program does around its own work: logging, signals, one-line errors, the ready file."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mesos_gpu import __version__
from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.base.linux import libc
from mesos_gpu.errors import BadFlag, MesosGpuError
from mesos_gpu.mesos.dcos.switches import read_config
from mesos_gpu.mesos.flags import CommandLine, F, HelpAsked, parse_flags
from mesos_gpu.process.log_file import LogFile

LOG_FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
SHORT_OF = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
)
"""What a machine lacks, or has broken: no fault of ours, and none that a traceback would help with."""
SETTLED_S = 1.0
"""After it is ready a service has done with what starting takes."""
EXIT_OK, EXIT_REFUSED, EXIT_USAGE = 0, 1, 2


def run_program(name: str, main: Callable[[asyncio.Event], Awaitable[int]], *, max_log_bytes: int | None = None) -> int:
    """Run `main(stop)` in a new event loop and return the exit status.

    SIGTERM and SIGINT set `stop`. A MesosGpuError is printed as one line and becomes 1, and so is what a machine is
    short of; anything else is our bug and keeps its traceback. `max_log_bytes` as in LogFile.
    """
    set_levels()
    logging.basicConfig(handlers=[LogFile(max_log_bytes or 0)], format=LOG_FORMAT)

    async def run() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        return await main(stop)

    try:
        return asyncio.run(run())
    except MesosGpuError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except OSError as error:
        if error.errno not in SHORT_OF:
            raise
        print(f"{name}: {error}; start it again when that is put right", file=sys.stderr)
        return EXIT_REFUSED


LEVELS = {"": logging.INFO, "mesos_gpu": logging.NOTSET, "aiohttp.access": logging.WARNING}
"""By logger. Every call by a polling client would be a line."""


def set_levels() -> None:
    """Have loggers log as services do.

    What is so already is left alone: each change of a level, and each logger above others that is new, is told to all
    loggers, which in a fork of many modules takes a page of memory for each.
    """
    for name, level in LEVELS.items():
        logger = logging.getLogger(name)
        if logger.level != level:
            logger.setLevel(level)


def read_flags(line: CommandLine[F], argv: Sequence[str] | None = None) -> tuple[F, list[str]]:
    """Return the flags of this process, and what to report about those that have no effect.

    Prints help, the version or what is wrong with the flags, and exits.
    """
    words = sys.argv[1:] if argv is None else argv
    if list(words) == ["--version"]:  # as mesos-master and mesos-agent
        _print(f"{line.program} {__version__}")
        raise SystemExit(EXIT_OK)
    try:
        return parse_flags(line, words, os.environ, read_file=lambda path: Path(path).read_text(encoding="utf-8"))
    except HelpAsked as asked:
        _print(str(asked))
        raise SystemExit(EXIT_OK) from None
    except BadFlag as error:
        print(f"{line.program}: {error}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE) from None


def _print(text: str) -> None:
    """Print what was asked for; a reader that has gone, such as `head`, has seen enough."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_secret(flag: str, value: str, *, shared: bool = False) -> str:
    """Return the content of a file that a flag names by its absolute path; else the value itself. Raises BadFlag.

    Warns when others may read the file, unless it is `shared` on purpose.
    """
    if not value.startswith("/"):
        return value
    path = Path(value)
    try:
        if not shared and path.stat().st_mode & 0o077:
            logging.getLogger(__name__).warning("--%s=%s: others may read it; `chmod 600` keeps it secret", flag, path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadFlag(flag, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFlag(flag, f"{path} is not text") from None


def read_switches(path: str | None) -> Mapping[str, bool]:
    """Return the switches about GPUs of the config.yaml at `path`; none without one. Raises BadFlag."""
    if path is None:
        return {}
    try:
        return read_config(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise BadFlag("dcos_config", f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFlag("dcos_config", f"{path} is not text") from None


def write_ready_file(path: str | None, document: Mapping[str, object]) -> None:
    """Write `document` and our pid to `path`, whole or not at all; nothing happens without a path.

    A program that says so is a service of a box.
    """
    if path is None:
        return
    give_back_soon()
    write_whole(Path(path), msgspec.json.encode({"pid": os.getpid(), **document}), mode=PUBLIC, durable=False)


def give_back_soon() -> None:
    """Give back what starting has left of memory, once that is over (1 MiB of a box).

    The programs of a box share a machine with what it is used for.
    """
    asyncio.get_running_loop().call_later(SETTLED_S, _give_back)


def _give_back() -> None:
    gc.collect()
    libc.return_free_memory()
