"""The program that plays the cards of an agent: started with it, or when somebody asks for the first time.

It is found again after a restart of the agent, and ended with it.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

from mesos_gpu.simulated.client import Cards, CardsRefused, CardsSilent
from mesos_gpu.simulated.division import Profile
from mesos_gpu.simulated.listeners import bound, hand_over

_log = logging.getLogger(__name__)

SOCKET = "card.sock"
"""Where the libraries of simulated GPUs look for the program: beside the table of GPUs, in the driver volume."""
CONTROL = "control.sock"
DIVIDED = "mig.json"
"""Where the instances of cards in MIG mode are kept, beside that."""
START_S = 20.0
_AGAIN_S = 0.01
_PROGRAM = str(Path(__file__).parent / "__main__.py")


class RunningCards:
    """The cards of one agent, whose memory in bytes is told by the minor number of each, as a program.

    `folder` is where it answers the agent; `root` names the cgroup of all containers; `sockets`: of cards that answer
    at a socket of their own, too; `profiles`: what those in MIG mode can be divided into. `on_demand`: where only
    programs in the driver volume can ask, it is not started before one does (`asked`, `wake`): it takes 8 MiB.
    """

    def __init__(
        self,
        sizes: Mapping[int, int],
        folder: Path,
        root: str,
        sockets: Mapping[int, Path],
        profiles: Mapping[int, Sequence[Profile]] | None = None,
        *,
        on_demand: bool = False,
    ) -> None:
        self._sizes, self._root, self._sockets = dict(sizes), root, dict(sockets)
        self._profiles, self._divided = dict(profiles or {}), folder / DIVIDED
        self.control = folder / CONTROL
        self._on_demand = on_demand and not self._sockets and not self._profiles
        self.asked: socket.socket | None = None
        """Becomes readable when somebody asks a program that is not started yet."""
        self._cards: Cards | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Take up the program of an agent before this one, else start one, and do not wait for that."""
        try:
            self._cards = self._taken_up()
            if self._cards is None and not self._on_demand:
                self._process = self._launched()
        except (OSError, CardsRefused) as error:
            _log.warning("the program that plays the simulated GPUs cannot be started: %s", error)

    def start(self, volume: Path | None) -> None:
        """Have the program answer, in the driver volume too; on demand, listen there for who asks first.

        Where it cannot be had the log says so: GPUs are idle then, and CUDA programs find no driver.
        """
        try:
            if self._cards is None and self._on_demand:
                self.asked = None if volume is None else bound(volume / SOCKET)
                return
            if self._cards is None:
                self._cards = self._until_it_answers()
            if volume is not None:
                self._listen(volume / SOCKET)
        except (OSError, CardsRefused) as error:
            _log.warning("the simulated GPUs do nothing: the program that plays them cannot be had: %s", error)

    def wake(self) -> None:
        """Start the program for who has asked at `asked`, and have it answer there. What fails is said in the log."""
        listener, self.asked = self.asked, None
        if listener is None:
            return
        with listener:
            try:
                self._process = self._launched()
                self._cards = self._until_it_answers()
                self._hand_over(self._cards, listener)
            except (OSError, CardsRefused) as error:
                _log.warning("the simulated GPUs do nothing: the program that plays them cannot be had: %s", error)

    def close(self, *, keep: bool) -> None:
        """Leave the program, which ends when the last process on a card has; with `keep` false have it end now."""
        if self.asked is not None:
            self.asked.close()
            self.asked = None
        if self._cards is None:
            return
        if not keep:
            try:
                self._cards.ask("end")
            except (CardsSilent, CardsRefused) as error:
                _log.debug("%s", error)
        self._cards.close()
        self._cards = None
        if self._process is not None:
            if keep:
                self._process.returncode = 0  # it is waited for by whoever takes up orphans
            else:
                self._process.wait(START_S)

    def _taken_up(self) -> Cards | None:
        """Return the program of an agent before this one, where it runs and plays the same cards."""
        try:
            cards = Cards(self.control)
        except CardsSilent:
            return None
        figures = cards.figures()["cards"]
        there = {int(card): told["total"] for card, told in figures.items()}
        divided = {int(card) for card, told in figures.items() if told.get("mig") is not None}
        if (there, divided) == (self._sizes, set(self._profiles)) and all(
            _answers(path) for path in self._sockets.values()
        ):
            return cards
        _log.info("the simulated GPUs are others than before: their program starts anew")
        cards.ask("end")
        cards.close()
        return None

    def _launched(self) -> subprocess.Popen[bytes]:
        words = [f"{card}={size}={self._sockets.get(card, '')}" for card, size in sorted(self._sizes.items())]
        if self._profiles:
            rows = {card: [astuple(one) for one in kinds] for card, kinds in self._profiles.items()}
            words = ["--mig", str(self._divided), json.dumps(rows), *words]
        return subprocess.Popen(
            [sys.executable, "-S", _PROGRAM, self._root, str(self.control), *words],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _until_it_answers(self) -> Cards:
        end_s = time.monotonic() + START_S
        while True:
            try:
                return Cards(self.control)
            except CardsSilent:
                if self._process is None or self._process.poll() is not None or time.monotonic() > end_s:
                    raise
            time.sleep(_AGAIN_S)

    def _listen(self, path: Path) -> None:
        """Have the program answer at a path which only this process may see: a listener of ours is handed over."""
        assert self._cards is not None
        if _answers(path):
            return
        with bound(path) as listener:
            self._hand_over(self._cards, listener)

    @staticmethod
    def _hand_over(cards: Cards, listener: socket.socket) -> None:
        hand_over(cards.socket, listener)
        cards.answered()


def _answers(path: Path) -> bool:
    try:
        Cards(path).close()
    except CardsSilent:
        return False
    return True
