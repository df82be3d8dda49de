"""Signals to the processes of a container, in the right order and at the right time.

The first process of a pid namespace is an init that ends with the command it has started, and when it ends the kernel
kills every other process of the namespace. A shell that runs a command ends at SIGTERM at once, so the command would
lose its grace period. Therefore the init is stopped (SIGSTOP) before SIGTERM is sent to the other processes, and
continued (SIGCONT) when all of them have ended, or when the grace period is over. It then reports the exit status of
its command as always. Mesos has no such step (MESOS-6933).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping

import msgspec

from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.processes import Process, is_stopped
from mesos_gpu.container.spec.nesting import descendants
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

INIT_ALONE_S = 0.01
"""How long to give an init that has not started its command yet, before looking again for what to send SIGTERM."""
SIGNAL_GRACE_S = 3.0
"""Grace period after a SIGTERM whose sender names none: that of a Mesos task without a kill policy."""
LOOK_S = 0.25
"""Longest time between two looks for processes that are left; the end of the one waited for is noticed at once."""
PAUSE_S = 0.001


class Killer:
    """Ends containers and the containers nested in them. `containers` are the live ones, by id."""

    def __init__(
        self, cgroups: Cgroups, containers: Mapping[ContainerId, LiveContainer], checkpoints: ContainerRecords
    ) -> None:
        self._cgroups, self._containers, self._checkpoints = cgroups, containers, checkpoints

    def kill(self, container: LiveContainer, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL after `grace_s` seconds.

        A repeated kill can only shorten the grace period; it does not send SIGTERM a second time.
        """
        if grace_s <= 0:
            self.kill_now(container)
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        if container.kill_timer is not None:
            deadline = min(deadline, container.kill_timer.when())
            container.kill_timer.cancel()
        container.kill_timer = loop.call_at(deadline, self.kill_now, container)
        if container.term_timer is not None:
            container.term_timer.cancel()
        if container.asked or _is_held(container):
            self._hold(container, deadline)  # SIGTERM has been sent, perhaps by an earlier process of the agent
        else:
            self._terminate(container, deadline)

    def kill_now(self, container: LiveContainer) -> None:
        """Send SIGKILL; the kernel ends every process of a pid namespace with its first."""
        if container.init is not None and not container.ended.is_set():
            container.init.kill()
            try:
                self._cgroups.kill(container.record.container_id)
            except OSError as error:  # no descriptor left, say; who follows its end kills what is left of it
                log.warning("container %s: only its init was killed: %s", container.record.container_id, error)

    def terminate(self, container: LiveContainer, grace_s: float) -> int:
        """Send SIGTERM to all processes but the init; return to how many. No SIGKILL follows.

        If the first process ends, the others keep up to `grace_s` seconds.
        """
        if self._others(container):
            self._hold(container, asyncio.get_running_loop().time() + grace_s)
        return self.signal_all(container, signal.SIGTERM)

    def signal_all(self, container: LiveContainer, number: signal.Signals) -> int:
        """Send a signal to all processes but those that would pass it on a second time; return to how many."""
        container_id = container.record.container_id
        nested = self._nested(container)
        spared = {one.init.pid for one in (container, *nested) if one.init is not None}
        told: set[int] = set()
        # again: a process may have forked meanwhile
        while fresh := self._cgroups.pids(container_id) - told - spared - self._in_sessions(container):
            for pid in fresh:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            told |= fresh
        return len(told)

    def take_up(self, container: LiveContainer) -> None:
        """Continue with a container whose init was stopped by an earlier process of the agent."""
        if _is_held(container):
            self._follow(container, container.record.held_until_s or 0.0)

    async def others_ended(self, container: LiveContainer) -> None:
        """Return when all processes but the init have ended, or when its grace period is over. Raises OSError."""
        loop = asyncio.get_running_loop()
        while loop.time() < container.held_until_s and (pids := self._others(container)):
            process = Process.open(min(pids))
            if process is not None:
                try:
                    left_s = container.held_until_s - loop.time()
                    await asyncio.wait_for(process.wait(), max(0.0, min(left_s, LOOK_S)))
                except asyncio.TimeoutError:
                    pass
                finally:
                    process.close()
            await asyncio.sleep(PAUSE_S)

    def _terminate(self, container: LiveContainer, deadline: float) -> None:
        """Send SIGTERM to all but the init, as soon as there is another process."""
        try:
            told = 0
            if self._others(container):
                self._hold(container, deadline)
                told = self.signal_all(container, signal.SIGTERM)
        except OSError as error:
            log.warning("container %s: cannot ask it to end, will try again: %s", container.record.container_id, error)
            told = 0
        container.asked = told > 0
        if not told:
            # killed within milliseconds of its launch, before the init has started the command
            loop = asyncio.get_running_loop()
            container.term_timer = loop.call_later(INIT_ALONE_S, self._terminate, container, deadline)

    def _hold(self, container: LiveContainer, until_s: float) -> None:
        """Keep the init, and those of nested containers, from ending while other processes live, up to a time."""
        if container.record.session:  # its first process is no init: `others_ended` is waited for when it has ended
            container.held_until_s = until_s
            return
        for one in (container, *self._nested(container)):
            if one.record.session or one.init is None or one.ending:
                continue
            if one.record.held_until_s != until_s:
                one.record = msgspec.structs.replace(one.record, held_until_s=until_s)
                try:
                    self._checkpoints.save(one.record)  # first: an agent that finds the init stopped knows how long
                except OSError as error:
                    log.warning("container %s: %s", one.record.container_id, error)
            one.init.kill(signal.SIGSTOP)
            self._follow(one, until_s)

    def _follow(self, container: LiveContainer, until_s: float) -> None:
        container.held_until_s = until_s
        if container.hold is None or container.hold.done():
            container.hold = asyncio.create_task(self._release(container))

    async def _release(self, container: LiveContainer) -> None:
        """Let the init of a container continue, once it may end."""
        while True:
            try:
                await self.others_ended(container)
                break
            except OSError as error:  # no descriptor left, say
                log.warning("container %s: cannot see its processes: %s", container.record.container_id, error)
                await asyncio.sleep(LOOK_S)
        over = asyncio.get_running_loop().time() >= container.held_until_s
        if container.init is None or (over and container.kill_timer is not None):  # SIGKILL is due
            return
        container.init.kill(signal.SIGCONT)
        if container.kill_timer is not None:
            # No other process is left, so the init ends now; unless its command had not been started at SIGTERM.
            container.asked = False
            loop = asyncio.get_running_loop()
            container.term_timer = loop.call_later(INIT_ALONE_S, self._terminate, container, container.held_until_s)

    def _nested(self, container: LiveContainer) -> list[LiveContainer]:
        """Return the live containers that are nested in one, sessions included."""
        return [self._containers[one] for one in descendants(container.record.container_id, self._containers)]

    def _in_sessions(self, container: LiveContainer) -> frozenset[int]:
        """Return the processes of sessions in a container: they end with it, and are not asked."""
        sessions = (one.record.container_id for one in self._nested(container) if one.record.session)
        return frozenset[int]().union(*map(self._cgroups.pids, sessions))

    def _others(self, container: LiveContainer) -> frozenset[int]:
        """Return the processes that keep a container from ending while it has its grace period. Raises OSError."""
        pids = self._cgroups.pids(container.record.container_id) - self._in_sessions(container)
        return pids if container.init is None else pids - {container.init.pid}


def _is_held(container: LiveContainer) -> bool:
    """Return whether the init is stopped, by this process or an earlier one of the agent."""
    init = container.init
    return init is not None and container.record.held_until_s is not None and is_stopped(init.pid)
