"""`mesos-gpu` as it is installed: by the resident helper where there is one for the command, else directly.

Imports little, as every command waits for it. `python -m marathon_cli` is the direct way alone.
"""

from __future__ import annotations

import os
import sys
import time

from marathon_cli.resident import front, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_INTERRUPTED = 130
_CACHES = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")


def main() -> NoReturn:
    """Be the `mesos-gpu` program."""
    words = sys.argv[1:]
    _by_helper(words)
    from marathon_cli.main import main as directly

    try:
        directly()
    finally:
        front.begin_helper(words, os.environ, time.time(), _is_wanted)


def quick() -> NoReturn:
    """Be the `mesos-gpu` program, perhaps of a Python that began with -IS: without its site, half of a start.

    What no helper carries out gets its site now, and, where variables tell Python something, one that has heard it.
    """
    if sys.flags.no_site:
        _by_helper(sys.argv[1:])
        if any(name.startswith("PYTHON") and name not in _CACHES for name in os.environ):
            os.execv(sys.executable, [sys.executable, *sys.argv])
        import site

        sys.dont_write_bytecode = bool(os.environ.get(_CACHES[0]))
        sys.pycache_prefix = os.environ.get(_CACHES[1]) or None
        sys.path.remove(os.path.dirname(place.PACKAGE))
        site.main()
    main()


def _by_helper(words: Sequence[str]) -> None:
    """End as the helper's child does, where there is a helper that takes the command."""
    try:
        status = front.carried_out(words, os.environ)
    except KeyboardInterrupt:  # before anything had begun
        sys.stderr.write("mesos-gpu: interrupted\n")
        sys.exit(_INTERRUPTED)
    if status is not None:
        front.end_as(status)


def _is_wanted() -> bool:
    """Whether the profile in use wants a helper. It is asked when one would be started; it ends when that changes."""
    from marathon_cli.connection.profiles import ProfileStore
    from marathon_cli.connection.settings import NO
    from mesos_gpu.errors import MesosGpuError

    try:
        found = ProfileStore.of(os.environ).read()
    except MesosGpuError:
        return False
    chosen = found.profiles.get(os.environ.get("MESOS_GPU_PROFILE") or found.use or "", {})
    return chosen.get("resident", "").lower() not in NO


def helper() -> None:
    """Be the helper that listens at the path in the first argument."""
    from marathon_cli.connection.profiles import ProfileStore
    from marathon_cli.main import main as directly
    from marathon_cli.resident.helper import run

    run(sys.argv[1], _preload, directly, also=[str(ProfileStore.of(os.environ).config)])


PRELOADED = (
    *("marathon_cli.completion", "marathon_cli.connection.transport", "marathon_cli.console.connections"),
    *("marathon_cli.clients.client", "marathon_cli.clients.sandbox", "marathon_cli.clients.news"),
    *("mesos_gpu.marathon.why.warnings", "marathon_cli.connection.profiles", "marathon_cli.aliases.made"),
    *("shutil", "encodings.idna", "queue"),
)
"""What commands import when they need it."""


def _preload() -> None:
    """Read what short commands use, with their modules."""
    from importlib import import_module

    from marathon_cli.registry import ROWS
    from marathon_cli.resident.choice import QUICK

    for module in (
        *PRELOADED,
        *(f"marathon_cli.commands.{row.where.partition(':')[0]}" for row in ROWS if row.path in QUICK),
    ):
        import_module(module)
