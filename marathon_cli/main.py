"""`mesos-gpu`: puts the commands together, and decides in one place how a command ends.

Exit statuses: 0 done, 1 refused or not possible (one message says why), 2 bad usage, 3 our own bug, 4 --timeout is
over (what was asked for continues), 130 interrupted.
Start-up time is a feature: a command is imported when it is run (lazy.py), and none imports requests, rich or
jsonschema before it needs them.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click

from marathon_cli.console.console import Console
from marathon_cli.console.options import target_options
from marathon_cli.lazy import LazyGroup
from marathon_cli.registry import PROGRAM
from marathon_cli.screen.language import told
from mesos_gpu.errors import MesosGpuError, TimeIsUp

COMPLETING = "_MESOS_GPU_COMPLETE"
"""The variable with which a shell asks what a word may become."""
DONE, REFUSED, BUG, TIME_IS_UP, INTERRUPTED = 0, 1, 3, 4, 130


class _Interrupted(Exception):
    """Ctrl-C, told apart from click's own way with it, which prints an empty line."""


class _Program(LazyGroup):
    """A group whose errors end the program as this module's docstring says."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run the command that `args` names and exit."""
        if args is None and COMPLETING in os.environ:
            from marathon_cli.completion import complete

            complete(self, PROGRAM, os.environ)
            sys.exit(DONE)
        console = extra.setdefault("obj", Console())
        extra["prog_name"] = PROGRAM
        try:
            outcome = super().main(list(sys.argv[1:] if args is None else args), standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (_Interrupted, click.Abort):
            _explain(f"interrupted{f'; {console.goes_on}' if console.goes_on else ''}", console)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output (head, less) has enough. Python would complain while flushing at its exit.
            give_up_output()
            sys.exit(REFUSED)
        except TimeIsUp as error:
            _explain(str(error), console)
            sys.exit(TIME_IS_UP)
        except MesosGpuError as error:
            _explain(str(error), console)
            sys.exit(REFUSED)
        except Exception as error:
            if (full := disk_full(error)) is not None:
                give_up_output()
                _explain(full, console)
                sys.exit(REFUSED)
            _explain(f"this is a bug of {PROGRAM}: {type(error).__name__}: {error}", console)
            sys.exit(BUG)
        sys.exit(outcome if isinstance(outcome, int) else DONE)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None


def _explain(message: str, console: Console) -> None:
    if console.debug:
        import traceback

        traceback.print_exc()
    if sys.stderr.isatty() and message.startswith("interrupted"):
        click.echo(err=True)  # the terminal has written ^C
    click.echo(told(f"{PROGRAM}: {message}"), err=True)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@partial(target_options, hidden=False)
@click.version_option(package_name="mesos-gpu", prog_name=PROGRAM)
def cli() -> None:
    """GPUs on Apache Mesos: run apps on whole GPUs of their own.

    \b
    Start a box on this machine, and an app on it:
      mesos-gpu up --detach
      mesos-gpu app add examples/simple-gpu-test.json --wait
      mesos-gpu task log simple-gpu-test --follow
    """


def main() -> NoReturn:
    """Be the `mesos-gpu` program."""
    open_closed_streams()
    interrupt_blocked_calls()
    cli.main()


_NUDGE = signal.SIGURG
"""What it does unless it is asked for: nothing. No part of this program asks for it."""
_NUDGES, _PAUSE_S = 20, 0.02
"""The call may begin a little after the signal, so one nudge is not enough; the last comes after 0.4 s."""


def interrupt_blocked_calls() -> None:
    """Let Ctrl-C end a blocked call also if the kernel delivers the signal to another thread.

    For the main thread of a program that owns its process; an event loop does this itself.
    """
    told, teller = os.pipe()
    os.set_blocking(teller, False)
    signal.signal(_NUDGE, lambda _number, _frame: None)
    signal.set_wakeup_fd(teller, warn_on_full_buffer=False)
    threading.Thread(target=_nudge, args=(told, threading.get_ident()), name="interrupts", daemon=True).start()


def _nudge(told: int, main: int) -> None:
    while numbers := os.read(told, 64):
        if set(numbers) == {_NUDGE}:
            continue  # our own
        for _ in range(_NUDGES):
            signal.pthread_kill(main, _NUDGE)
            time.sleep(_PAUSE_S)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def open_closed_streams() -> None:
    """Put /dev/null in place of streams that are closed, as by `>&-`: Python has None there, and files get numbers."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def disk_full(error: Exception) -> str | None:
    """Return what is to be said when output cannot be written for want of room; None for any other error."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        return f"the output cannot be written: {error.strerror}"
    return None


def give_up_output() -> None:
    """Lead standard output to nowhere: what is left in its buffer is not written, and Python does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
