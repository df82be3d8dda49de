"""A framework of tests on pymesos, as its authors' frameworks are: it keeps what it is told, and waits for it."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mesos_gpu.framework import GpuTask, Offered, framework_info
from mesos_gpu.testing import MesosBox

# Importing pymesos takes Ctrl-C away from pytest.
_sigint_before = signal.getsignal(signal.SIGINT)
import pymesos  # noqa: E402

signal.signal(signal.SIGINT, _sigint_before)

PATIENCE_S = 60.0
Document = dict[str, Any]


class Player(pymesos.Scheduler):  # type: ignore[misc]
    """Keeps offers for who asks for them, and every status."""

    def __init__(self, box: MesosBox) -> None:
        self._box = box
        self.driver: Any = None
        self.heard: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._kept: list[tuple[str, Any]] = []

    def registered(self, driver: Any, framework_id: Document, master_info: Document) -> None:
        self.heard.put(("registered", master_info))

    def reregistered(self, driver: Any, master_info: Document) -> None:
        self.heard.put(("reregistered", master_info))

    def resourceOffers(self, driver: Any, offers: list[Document]) -> None:
        for offer in offers:
            self.heard.put(("offer", Offered(offer)))

    def offerRescinded(self, driver: Any, offer_id: Document) -> None:
        self.heard.put(("rescinded", offer_id))

    def statusUpdate(self, driver: Any, update: Document) -> None:
        self.heard.put(("status", update))

    def error(self, driver: Any, message: str) -> None:
        self.heard.put(("error", message))

    def next(self, kind: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        """Wait for something of a kind; what else came stays for later. Offers that do not fit are declined."""
        for n, (known, value) in enumerate(self._kept):
            if known == kind and fits(value):
                del self._kept[n]
                return value
        while True:
            try:
                known, value = self.heard.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"no {kind}; kept {self._kept}\n{self._box.logs()}") from None
            if known == kind and fits(value):
                return value
            if known == kind == "offer":
                self.driver.declineOffer(value.id, {"refuse_seconds": 0.05})
            else:
                self._kept.append((known, value))

    def launch(self, task: GpuTask) -> Offered:
        """Launch a task on the first offer that has room for it; return the offer."""
        offered: Offered = self.next("offer", lambda offer: offer.fits(task))
        self.driver.launchTasks(offered.id, [offered.launch(task)], {"refuse_seconds": 0.05})
        return offered

    def status(self, state: str, task_id: str | None = None) -> Document:
        """Wait for a status of this state."""

        def fits(status: Document) -> bool:
            return status["state"] == state and task_id in (None, status["task_id"]["value"])

        found: Document = self.next("status", fits)
        return found


@contextmanager
def playing(box: MesosBox, **info: Any) -> Iterator[Player]:
    """A framework that is subscribed; it is torn down afterwards."""
    player = Player(box)
    player.driver = pymesos.MesosSchedulerDriver(player, framework_info("player", **info), box.master)
    player.driver.start()
    try:
        player.next("registered")
        yield player
    finally:
        player.driver.stop()
        player.driver.join()
