"""Signals to all that a container is, in the right order and in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping

from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.spec.nesting import descendants
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

INIT_ALONE_S = 0.01
"""How long to give an init that has not started its command yet, before looking again for what to send SIGTERM."""


class Killer:
    """Ends containers, those nested in them included. `containers` is who lives now, by id."""

    def __init__(self, cgroups: Cgroups, containers: Mapping[ContainerId, LiveContainer]) -> None:
        self._cgroups, self._containers = cgroups, containers

    def kill(self, container: LiveContainer, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds. A repeated kill can only shorten the grace."""
        if grace_s <= 0:
            self.kill_now(container)
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        if container.kill_timer is not None:
            deadline = min(deadline, container.kill_timer.when())
            container.kill_timer.cancel()
        container.kill_timer = loop.call_at(deadline, self.kill_now, container)
        self._terminate(container)

    def kill_now(self, container: LiveContainer) -> None:
        """SIGKILL; the kernel ends every process of a pid namespace with its first."""
        if container.init is not None and not container.ended.is_set():
            container.init.kill()
            try:
                self._cgroups.kill(container.record.container_id)
            except OSError as error:  # no descriptor left, say; who follows its end kills what is left of it
                log.warning("container %s: only its init was killed: %s", container.record.container_id, error)

    def signal_all(self, container: LiveContainer, number: signal.Signals) -> int:
        """Send a signal to all processes but those that would pass it on a second time; return to how many."""
        container_id = container.record.container_id
        nested = [self._containers[one] for one in descendants(container_id, self._containers)]
        spared = {one.init.pid for one in (container, *nested) if one.init is not None}
        for session in (one.record.container_id for one in nested if one.record.session):
            spared |= self._cgroups.pids(session)
        told: set[int] = set()
        while fresh := self._cgroups.pids(container_id) - told - spared:  # again: a process may have forked meanwhile
            for pid in fresh:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            told |= fresh
        return len(told)

    def _terminate(self, container: LiveContainer) -> None:
        """SIGTERM to all but the init, as soon as there is another process."""
        try:
            told = self.signal_all(container, signal.SIGTERM)
        except OSError as error:
            log.warning("container %s: cannot ask it to end, will try again: %s", container.record.container_id, error)
            told = 0
        if not told:
            # killed within milliseconds of its launch, before the init has started the command
            loop = asyncio.get_running_loop()
            container.term_timer = loop.call_later(INIT_ALONE_S, self._terminate, container)
