"""One simulated card in virtual time: kernels that take a time and nothing else. Pure.

Each context has its kernels done one after another; contexts with work take turns of `SLICE_NS`, as a driver gives them
where nobody shares by other means, so that who has more processes has more of the card. Times are whole nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

SLICE_NS = 2_000_000
"""How long a context runs before another with work has its turn; kernels are interrupted for that."""
SAMPLE_NS = 100_000_000
SAMPLES = 50
"""So many samples of who used the card are kept, each of `SAMPLE_NS`."""
RECENT = 10
"""So many samples are looked at for how busy a card is."""


@dataclass(slots=True)
class Kernel:
    """Work that is queued; `ticket` names it."""

    ticket: int
    left_ns: int


@dataclass(slots=True)
class Queue:
    """The work of one context, oldest first. `pid` and `owner`: the process and the container that are charged."""

    pid: int
    owner: str
    kernels: deque[Kernel] = field(default_factory=deque)


class Card:
    """The queues, the clock and the accounts of one card."""

    def __init__(self) -> None:
        self._queues: dict[int, Queue] = {}
        self._turns: deque[int] = deque()
        self._slice_ns = SLICE_NS
        self._at_ns = 0
        self._samples: dict[int, dict[int, int]] = {}
        self.used_ns: dict[str, int] = {}
        """What each container has used since the card began."""

    def open(self, context: int, pid: int, owner: str) -> None:
        """Begin a context."""
        self._queues[context] = Queue(pid, owner)

    def close(self, context: int) -> list[int]:
        """End a context; return the tickets of what was queued, which is not done any more."""
        queue = self._queues.pop(context)
        if context in self._turns:
            if self._turns[0] == context:
                self._slice_ns = SLICE_NS
            self._turns.remove(context)
        return [kernel.ticket for kernel in queue.kernels]

    def submit(self, context: int, ticket: int, takes_ns: int, now_ns: int) -> None:
        """Queue a kernel. The card must have been advanced to now."""
        if not self._turns:
            self._at_ns, self._slice_ns = now_ns, SLICE_NS
        queue = self._queues[context].kernels
        if not queue:
            self._turns.append(context)
        queue.append(Kernel(ticket, takes_ns))

    def advance(self, now_ns: int) -> list[tuple[int, int]]:
        """Let the time go by until now; return the tickets of what was done, and when, in order."""
        done: list[tuple[int, int]] = []
        while self._turns and self._at_ns <= now_ns:
            queue = self._queues[self._turns[0]]
            kernel = queue.kernels[0]
            step_ns = min(kernel.left_ns, now_ns - self._at_ns)
            if len(self._turns) > 1:
                step_ns = min(step_ns, self._slice_ns)
            self._charge(queue, step_ns)
            self._at_ns += step_ns
            self._slice_ns -= step_ns
            kernel.left_ns -= step_ns
            if not kernel.left_ns:
                queue.kernels.popleft()
                done.append((kernel.ticket, self._at_ns))
            if not queue.kernels:
                self._turns.popleft()
                self._slice_ns = SLICE_NS
            elif self._slice_ns <= 0:
                self._turns.rotate(-1)
                self._slice_ns = SLICE_NS
            elif kernel.left_ns:
                break  # now is in the middle of it
        return done

    def next_ns(self) -> int | None:
        """Return when something ends or another context has its turn; None while there is no work."""
        if not self._turns:
            return None
        left_ns = self._queues[self._turns[0]].kernels[0].left_ns
        return self._at_ns + (left_ns if len(self._turns) == 1 else min(left_ns, self._slice_ns))

    def waiting(self) -> set[str]:
        """Return the containers that have work queued."""
        return {self._queues[context].owner for context in self._turns}

    def busy_percent(self, now_ns: int) -> int:
        """Return for how much of the last second the card had work."""
        return min(100, sum(self._recent(now_ns).values()) * 100 // (RECENT * SAMPLE_NS))

    def busy_ns(self) -> int:
        """Return for how long the card has had work since it began."""
        return sum(self.used_ns.values())

    def percent_by_pid(self, now_ns: int) -> Mapping[int, int]:
        """Return how much of the last second each process had, in percent; who had nothing is left out."""
        return {pid: min(100, ns * 100 // (RECENT * SAMPLE_NS)) for pid, ns in self._recent(now_ns).items()}

    def samples(self, after_ns: int) -> list[tuple[int, int, int]]:
        """Return the whole samples that ended later, oldest first: the end, the process, its percent of the card."""
        return [
            ((sample + 1) * SAMPLE_NS, pid, ns * 100 // SAMPLE_NS)
            for sample, used in sorted(self._samples.items())
            if after_ns < (sample + 1) * SAMPLE_NS <= self._at_ns
            for pid, ns in sorted(used.items())
        ]

    def _recent(self, now_ns: int) -> dict[int, int]:
        last = now_ns // SAMPLE_NS
        found: dict[int, int] = {}
        for sample in range(last - RECENT, last):
            for pid, ns in self._samples.get(sample, {}).items():
                found[pid] = found.get(pid, 0) + ns
        return found

    def _charge(self, queue: Queue, step_ns: int) -> None:
        self.used_ns[queue.owner] = self.used_ns.get(queue.owner, 0) + step_ns
        begin_ns, end_ns = self._at_ns, self._at_ns + step_ns
        while begin_ns < end_ns:
            sample = begin_ns // SAMPLE_NS
            part_ns = min(end_ns, (sample + 1) * SAMPLE_NS) - begin_ns
            if sample not in self._samples:
                self._samples[sample] = {}
                for old in [one for one in self._samples if one <= sample - SAMPLES]:
                    del self._samples[old]
            used = self._samples[sample]
            used[queue.pid] = used.get(queue.pid, 0) + part_ns
            begin_ns += part_ns
