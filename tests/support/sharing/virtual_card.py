"""A card under virtual time: kernels of several contexts, served one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from mesos_gpu.sharing.ring import Reading, Ring, Turn


@dataclass
class Tenant:
    """A container that submits while it may: keeps `depth` kernels queued in each of `processes`."""

    kernel_s: float = 0.002
    depth: int = 2
    processes: int = 1
    busy: bool = True
    open: bool = True
    queued: int = 0
    used_s: float = 0.0

    def submit(self, queue: deque[tuple[str, float]], name: str) -> None:
        while self.busy and self.queued < self.depth * self.processes:
            queue.append((name, self.kernel_s))
            self.queued += 1


@dataclass
class VirtualCard:
    """Tenants by name, a ring that freezes them, and how late each of its switches is."""

    ring: Ring
    tenants: Mapping[str, Tenant]
    late_s: float = 0.0005
    now_s: float = 0.0
    turn: Turn = field(default_factory=lambda: Turn(frozenset(), 0.0))
    longest_frozen_s: float = 0.0
    _queue: deque[tuple[str, float]] = field(default_factory=deque)
    _running: tuple[str, float] | None = None
    _thawed: frozenset[str] = frozenset()
    _since: dict[str, float] = field(default_factory=dict)

    def run(self, seconds: float) -> dict[str, float]:
        """Let time go by; return how many seconds of the card each tenant has used meanwhile."""
        before = {name: tenant.used_s for name, tenant in self.tenants.items()}
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self._decide()
            self._serve(min(end_s, max(self.turn.until_s + self.late_s, self.now_s + 0.0001)))
        return {name: tenant.used_s - before[name] for name, tenant in self.tenants.items()}

    def _decide(self) -> None:
        readings = {name: Reading(tenant.used_s, tenant.open) for name, tenant in self.tenants.items()}
        self.turn = self.ring.decide(self.now_s, readings)
        self._thawed = self.turn.thawed
        for name in self.tenants:
            if name in self._thawed:
                since = self._since.pop(name, self.now_s)
                self.longest_frozen_s = max(self.longest_frozen_s, self.now_s - since)
            else:
                self._since.setdefault(name, self.now_s)

    def _serve(self, until_s: float) -> None:
        while self.now_s < until_s:
            for name in sorted(self._thawed):
                if name in self.tenants:
                    self.tenants[name].submit(self._queue, name)
            if self._running is None:
                if not self._queue:
                    self.now_s = until_s
                    return
                self._running = self._queue.popleft()
            name, left_s = self._running
            step_s = min(left_s, until_s - self.now_s)
            self.now_s += step_s
            self.tenants[name].used_s += step_s
            left_s -= step_s
            self._running = (name, left_s) if left_s > 1e-9 else None
            if self._running is None:
                self.tenants[name].queued -= 1
