"""The program that gives turns: rings of cards, carried out by freezing and thawing. A child of the agent.

The agent says on standard input, a line of JSON each time, which rings there are; it is answered there. At the end of
the agent, or of this program, everybody is thawed: by it, or by its watchdog.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mesos_gpu.base.linux import libc
from mesos_gpu.sharing.freezer import FROZEN, FrozenRecord, freeze, thaw
from mesos_gpu.sharing.meters import ClockMeter, Meter, SimulatedMeter
from mesos_gpu.sharing.policies import CardRules, Member, Policy
from mesos_gpu.sharing.ring import Reading, Ring
from mesos_gpu.sharing.watchdog import Watchdog

BEAT_S = 0.2
TELL_S = 0.5


@dataclass(slots=True)
class _Card:
    """A ring, who of it is frozen, and what meters its cards; several cards with a common container have one ring."""

    ring: Ring = field(default_factory=Ring)
    files: dict[str, str] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    meters: list[Meter] = field(default_factory=list)
    metered: Any = None
    due_s: float = 0.0
    owner: str | None = None
    switches: int = 0

    def turn(self, now_s: float) -> None:
        """Decide whose turn it is, and thaw and freeze: first who comes, so that the card is never empty."""
        turn = self.ring.decide(now_s, self._readings(now_s))
        for one in turn.thawed & self.frozen:
            thaw(self.files[one])
            self.frozen.discard(one)
        for one in self.files.keys() - turn.thawed - self.frozen:
            if freeze(self.files[one]):
                self.frozen.add(one)
                self.switches += 1
        self.owner, self.due_s = turn.owner, turn.until_s

    def thaw_all(self) -> None:
        """Thaw everybody."""
        for one in list(self.frozen):
            thaw(self.files[one])
        self.frozen.clear()

    def _readings(self, now_s: float) -> dict[str, Reading]:
        """Return what each container has used of all cards of the ring on average."""
        found: dict[str, Reading] = {}
        for meter in self.meters:
            for one, reading in meter.read(now_s, self.owner).items():
                before = found.get(one, Reading(0.0, open=False))
                found[one] = Reading(
                    before.used_s + reading.used_s / len(self.meters),
                    before.open or reading.open,
                    before.waiting or reading.waiting,
                )
        return found


class Turner:
    """All rings of an agent. `control` is the socket to the agent."""

    def __init__(self, control: socket.socket, record: FrozenRecord) -> None:
        self._control, self._record = control, record
        self._record.thaw_all()  # whatever a process before this one has left frozen
        self._watchdog = Watchdog(record)
        self._cards: dict[str, _Card] = {}
        self._heard = b""
        self._told_s = self._beaten_s = 0.0

    def run(self) -> None:
        """Give turns until the agent is gone; then thaw everybody."""
        try:
            while self._step():
                pass
        finally:
            for card in self._cards.values():
                card.thaw_all()
            self._watchdog.close()

    def _step(self) -> bool:
        now_s = time.monotonic()
        for card in self._cards.values():
            if now_s >= card.due_s:
                card.turn(now_s)
        if now_s - self._beaten_s >= BEAT_S:
            self._beaten_s = now_s
            if not self._watchdog.beat():
                for card in self._cards.values():
                    card.frozen.clear()  # it was thawed for the time without a watchdog
        if now_s - self._told_s >= TELL_S:
            self._told_s = now_s
            if not self._say({"figures": self._figures(), "watchdog": self._watchdog.pid}):
                return False
        wake_s = min([self._beaten_s + BEAT_S, *(card.due_s for card in self._cards.values())])
        ready, _, _ = select.select([self._control], [], [], max(0.0, wake_s - time.monotonic()))
        return not ready or self._hear()

    def _hear(self) -> bool:
        """Take what the agent says; return whether it is still there."""
        try:
            part = self._control.recv(1 << 20)
        except OSError:
            return False
        if not part:
            return False
        *lines, self._heard = (self._heard + part).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self._take(told["rings"])
            if not self._say({"done": told["number"]}):
                return False
        return True

    def _take(self, rings: Mapping[str, Any]) -> None:
        for name in self._cards.keys() - rings.keys():
            self._cards.pop(name).thaw_all()
        self._record.note(member["file"] for ring in rings.values() for member in ring["members"])
        for name, told in rings.items():
            card = self._cards.setdefault(name, _Card())
            rules = dict(told["rules"], policy=Policy(told["rules"]["policy"]))
            card.ring.set_rules(CardRules(**rules))
            files = {member["id"]: member["file"] for member in told["members"]}
            for gone in card.frozen - files.keys():
                thaw(card.files[gone])
            card.frozen &= files.keys()
            card.files = files
            card.ring.set_members(
                Member(member["id"], member["weight"], member["high"], member["held"]) for member in told["members"]
            )
            if card.metered != (metered := [told["meters"], files]):
                card.metered = metered
                card.meters = [_meter(meter, files) for meter in told["meters"]]
            card.turn(time.monotonic())

    def _figures(self) -> dict[str, Any]:
        return {
            name: {
                "switches": card.switches,
                "members": {
                    one: {**asdict(figures), "frozen": one in card.frozen}
                    for one, figures in card.ring.figures().items()
                },
            }
            for name, card in self._cards.items()
        }

    def _say(self, document: Mapping[str, Any]) -> bool:
        try:
            self._control.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            return False
        return True


def _meter(told: Mapping[str, Any], files: Mapping[str, str]) -> Meter:
    if told["kind"] == "simulated":
        return SimulatedMeter(told["socket"])
    return ClockMeter(told["minor"], {one: str(Path(file).parent / "cgroup.procs") for one, file in files.items()})


def _be_punctual() -> None:
    """Stay in memory and go before others, where the system lets us."""
    with suppress(OSError):
        libc.call("mlockall", libc.MCL_CURRENT | libc.MCL_FUTURE)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (OSError, AttributeError):
        pass


def main(folder: str) -> None:
    """Serve the agent at the other end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    control = socket.socket(fileno=0)
    control.setblocking(True)
    record = FrozenRecord(Path(folder) / FROZEN)
    turner = Turner(control, record)
    _be_punctual()
    turner.run()
