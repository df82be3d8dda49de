"""`mesos-gpu`: puts the commands together, and decides in one place how a command ends.

Exit statuses: 0 done, 1 refused or not possible (one message says why), 2 bad usage, 3 our own bug, 130 interrupted.
Start-up time is a feature: nothing here or in commands/ imports requests, rich or jsonschema before it is needed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from marathon_cli.commands import app, box, image, task
from marathon_cli.console import Console, target_options
from mesos_gpu.errors import MesosGpuError

PROGRAM = "mesos-gpu"
DONE, REFUSED, BUG, INTERRUPTED = 0, 1, 3, 130


class _Program(click.Group):
    """A group whose errors end the program as this module's docstring says."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run the command that `args` names and exit."""
        words = list(sys.argv[1:] if args is None else args)
        extra["prog_name"] = PROGRAM
        try:
            outcome = super().main(words, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output (head, less) has enough. Python would complain while flushing at its exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(REFUSED)
        except MesosGpuError as error:
            _explain(str(error), words)
            sys.exit(REFUSED)
        except Exception as error:
            _explain(f"this is a bug of {PROGRAM}: {type(error).__name__}: {error}", words)
            sys.exit(BUG)
        sys.exit(outcome if isinstance(outcome, int) else DONE)


def _explain(message: str, words: Sequence[str]) -> None:
    if "--debug" in words:
        traceback.print_exc()
    click.echo(f"{PROGRAM}: {message}", err=True)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@target_options
@click.option("--debug", is_flag=True, help="Show where in the program an error came from.")
@click.version_option(package_name="mesos-gpu", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """GPUs on Apache Mesos: run apps on whole GPUs of their own.

    \b
    Start a box on this machine, and an app on it:
      mesos-gpu up --detach
      mesos-gpu app add examples/simple-gpu-test.json --wait
      mesos-gpu task log simple-gpu-test --follow
    """
    context.ensure_object(Console)


for command in (app.app, task.task, image.image, box.up, box.down, box.status):
    cli.add_command(command)


def main() -> NoReturn:
    """Be the `mesos-gpu` program."""
    cli.main()
