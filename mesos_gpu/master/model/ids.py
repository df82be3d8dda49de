"""The ids that a master gives: one source of them, without chance, so that the same events give the same ids.

Source of their forms: Mesos src/master/master.cpp (newFrameworkId, newSlaveId, newOfferId).
"""

from __future__ import annotations

import base64
import uuid
from itertools import count

from mesos_gpu.mesos.ids import AgentId, FrameworkId, OfferId


class Ids:
    """Each id begins with the master's, which is new at each start, and continues with how many came before it."""

    def __init__(self, master_id: str) -> None:
        self._master_id = master_id
        self._frameworks, self._agents, self._offers, self._operations = count(), count(), count(), count()

    def framework(self) -> FrameworkId:
        """Return a fresh id: `<master>-0000`."""
        return FrameworkId(f"{self._master_id}-{next(self._frameworks):04d}")

    def agent(self) -> AgentId:
        """Return a fresh id: `<master>-S0`."""
        return AgentId(f"{self._master_id}-S{next(self._agents)}")

    def offer(self) -> OfferId:
        """Return a fresh id, of an offer or an inverse one: `<master>-O0`."""
        return OfferId(f"{self._master_id}-O{next(self._offers)}")

    def operation(self) -> str:
        """Return a fresh UUID as documents have it: base64 of its 16 bytes (RFC 9562, version 5)."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, f"{self._master_id}-P{next(self._operations)}")
        return base64.b64encode(name.bytes).decode("ascii")
