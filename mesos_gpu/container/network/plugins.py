"""CNI plugins are run: one at a time on the whole machine where a plugin is known to need that.

The CNI specification lets a runtime call plugins for several containers at once. Two of its own do not stand it: they
look for an iptables chain that all containers share, and make it where it is missing. Where two do so at once, one
fails ("CHAIN_USER_ADD failed (File exists)"), or the rules in it are there twice; iptables' own lock is held for one
command, not for the look and what follows from it. Source: containernetworking/plugins, issues 335 and 418.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.base.file_locks import taken
from mesos_gpu.container.spec import cni

PLUGIN_TIMEOUT_S = 60.0

LOCK = Path("/run/mesos-gpu-cni.lock")
"""Where all agents of a machine meet, whatever their folders are; nobody but root can hold it."""
LOCK_WAIT_S = 20.0
"""Then a plugin is run all the same: a hanging one of another agent must not keep all networks from all containers."""

ONE_AT_A_TIME = frozenset((cni.PORTMAP, cni.PORT_MAPPER, "firewall"))
"""Plugins that make what all containers of a machine share; of them only one runs at a time."""

log = logging.getLogger(__name__)


def run_plugin(
    program: Path, document: cni.Document, environment: Mapping[str, str], lock: Path
) -> subprocess.CompletedProcess[str]:
    """Run a plugin and return what it said. In a thread: it may take a minute. Raises OSError, TimeoutExpired."""
    if program.name not in ONE_AT_A_TIME:
        return _run(program, document, environment)
    with alone(lock) as held:
        return _run(program, document, environment, *held)


def _run(
    program: Path, document: cni.Document, environment: Mapping[str, str], *held: int
) -> subprocess.CompletedProcess[str]:
    # The plugin has the lock, too: it outlives an agent that is killed meanwhile, and is alone until its end.
    return subprocess.run(
        [program],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        cwd="/",
        timeout=PLUGIN_TIMEOUT_S,
        pass_fds=held,
        check=False,
    )


@contextmanager
def alone(lock: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[tuple[int, ...]]:
    """Hold the lock of a file, which is made, and give the descriptor that holds it.

    None is given, and nothing held, where the file cannot be had or was not free for `wait_s`: the log says so.
    """
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        log.warning("CNI plugins of other agents may come between: cannot open %s: %s", lock, error.strerror)
        yield ()
        return
    try:
        if not taken(descriptor, wait_s):
            log.warning("CNI plugins of other agents may come between: %s was not free for %g s", lock, wait_s)
            yield ()
            return
        try:
            yield (descriptor,)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # what a plugin leaves running has the descriptor, too
    finally:
        os.close(descriptor)
