"""Disks of services that fail for a while: full, read-only, or with errors now and then; then they are well again.

What a service makes of it is its own affair: it may go on, refuse in words, or end and be started again. What must be
so is what must be so at all times: no traceback, nothing lost that was acknowledged, nothing done twice; and all is
well by itself once the disk is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tests.sim.actors import LATER, Actor
from tests.sim.faults import count_to, span
from tests.sim.world import Host

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine

PAUSES_S = (60.0, 180.0, 400.0)
LONGEST_S = 240.0
AT_AN_END, MOST_AT_AN_END, A_MOMENT_S = 0.2, 4, 1.0
"""How often one of the next so many things fails that are written when a container has ended, within a moment."""
KINDS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EIO)
TAKES_NO_ROOM = frozenset(("unlink", "rmdir", "rename", "replace"))
"""What a full disk does not refuse."""
AFTERWARDS = "committed"
"""What is done by then cannot fail any more."""


@dataclass
class Failing(Actor):
    """Whatever befalls disks."""

    often: ClassVar[float] = 0.35
    name: ClassVar[str] = "failing"
    _ill: dict[str, Host] = field(default_factory=dict)

    async def work(self) -> None:
        """Let a disk fail now and then."""
        pause_s = self.chance.choice(PAUSES_S)
        if self.world.seed >= LATER:
            for machine in self.cluster.machines.values():
                machine.on_end = partial(self._ends, machine, machine.on_end)
        while self.busy:
            await self.pause(pause_s)
            if self.busy:
                self._befall(self.cluster.host_of(self.chance.choice(self.cluster.names)))

    def _befall(self, host: Host) -> None:
        if host.name in self._ill:
            return
        number = self.chance.choice(KINDS)
        part = 1.0 if number == errno.EROFS else self.chance.choice((1.0, 0.3, 0.05))
        lasts_s = self.world.lasts_s(span(self.chance, 1.0, LONGEST_S))
        self.tell(f"of what {host.name} writes {part:.0%} fails for {lasts_s:.1f} s: {os.strerror(number)}")

        def refuse(call: str) -> None:
            if call == AFTERWARDS or (number == errno.ENOSPC and call in TAKES_NO_ROOM):
                return
            if self.chance.random() < part:
                self.tell(f"{host.name} {call}: {os.strerror(number)}")
                raise OSError(number, os.strerror(number))

        host.disk.refuse = refuse
        self._ill[host.name] = host
        self.world.soon(lasts_s, self._heal, host)

    def _ends(self, machine: Machine, on_end: Callable[[Container], None], container: Container) -> None:
        """A container ends: one of the next things that are written of it may fail, and then all is well."""
        on_end(container)
        host = machine.host
        if not self.busy or host.name in self._ill or self.chance.random() >= AT_AN_END:
            return
        left = count_to(self.chance, MOST_AT_AN_END)

        def refuse(call: str) -> None:
            nonlocal left
            if call == AFTERWARDS:
                return
            left -= 1
            if left <= 0:
                self._heal(host)
                self.tell(f"{host.name} {call}: {os.strerror(errno.EIO)}, once")
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        host.disk.refuse = refuse
        self._ill[host.name] = host
        self.world.soon(A_MOMENT_S, self._heal, host)

    def _heal(self, host: Host) -> None:
        if self._ill.pop(host.name, None) is not None:
            host.disk.refuse = None
            self.tell(f"the disk of {host.name} is well again")

    def mend(self) -> None:
        """Let every disk be well."""
        for host in list(self._ill.values()):
            self._heal(host)
