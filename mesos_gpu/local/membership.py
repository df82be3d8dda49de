"""A group whose members are let into a box, followed while the box runs: who comes and who goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from mesos_gpu.local.group import members_now

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""How often the group is looked at."""
Look = Callable[[str], Mapping[str, int]]


class Membership:
    """The members of a group, as a box has let them in.

    `changed` is called with all of them when others are found. Who comes is let in at once; who is gone must be so at
    two looks in a row, since directories of users (LDAP) fail for a moment now and then, and he loses his way in.
    """

    def __init__(
        self,
        group: str,
        members: Mapping[str, int],
        changed: Callable[[Mapping[str, int]], Awaitable[None]],
        look: Look = members_now,
    ) -> None:
        self._group, self._members, self._changed, self._look = group, dict(members), changed, look
        self._missed: frozenset[str] = frozenset()
        self._turn = asyncio.Lock()

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look once. What fails is said in the log, and tried again at the next look."""
        async with self._turn:
            try:
                found = dict(await asyncio.to_thread(self._look, self._group))
            except KeyError:
                found = {}
            except OSError as error:
                log.warning("cannot tell who is in the group %s: %s", self._group, error)
                return
            missing = frozenset(name for name, uid in self._members.items() if found.get(name) != uid)
            gone, self._missed = missing & self._missed, missing
            # A name that has another number is another user, who comes when the one before has gone.
            stay = {name: uid for name, uid in self._members.items() if name not in gone}
            now = stay | {name: uid for name, uid in found.items() if name not in self._members}
            if now == self._members:
                return
            try:
                await self._changed(now)
            except Exception:
                log.exception("the members of %s have changed, and the box could not follow", self._group)
                return
            came = ", ".join(sorted(now.keys() - self._members.keys())) or "nobody"
            log.info("group %s: let in: %s; let in no more: %s", self._group, came, ", ".join(sorted(gone)) or "nobody")
            self._members = now
