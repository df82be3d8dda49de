"""`mesos-gpu`: puts the commands together, and decides in one place how a command ends.

Exit statuses: 0 done, 1 refused or not possible (one message says why), 2 bad usage, 3 our own bug, 4 --timeout is
over (what was asked for continues), 130 interrupted.
Start-up time is a feature: a command is imported when it is run (lazy.py), and none imports requests, rich or
jsonschema before it needs them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click

from marathon_cli.console.console import Console
from marathon_cli.console.options import target_options
from marathon_cli.lazy import LazyGroup
from marathon_cli.registry import PROGRAM
from marathon_cli.screen import interrupts, standard_streams
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
            standard_streams.give_up_output()
            sys.exit(REFUSED)
        except TimeIsUp as error:
            _explain(str(error), console)
            sys.exit(TIME_IS_UP)
        except MesosGpuError as error:
            _explain(str(error), console)
            sys.exit(REFUSED)
        except Exception as error:
            if (full := standard_streams.full(error)) is not None:
                standard_streams.give_up_output()
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
    standard_streams.complete()
    interrupts.heed()
    cli.main()
