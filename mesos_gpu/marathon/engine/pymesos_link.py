"""Marathon's connection to the master: the thread that makes calls, and what becomes of a driver that gives up."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from time import monotonic
from typing import Any, TypeAlias

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.engine.driver import (
    FIRST_REBUILD_S,
    HEARTBEAT_S,
    LONGEST_REBUILD_S,
    SILENT_HEARTBEATS,
    Driver,
    send,
)
from mesos_gpu.marathon.engine.mesos_link import Inbox
from mesos_gpu.marathon.state.actions import Acknowledge, Call, Launch, Resubscribe, UpdateRoles
from mesos_gpu.marathon.state.events import CallFailed
from mesos_gpu.mesos.ids import FrameworkId, Role

log = logging.getLogger(__name__)

TOGETHER = 64
"""So many acknowledgements are sent before the first of them is answered."""

Job: TypeAlias = "Callable[[], None] | Acknowledge | None"
"""What the thread for calls is to do; None: to end. Acknowledgements that follow one another are sent together."""


class PymesosLink:
    """A MesosLink (mesos_link.py) on pymesos."""

    def __init__(
        self,
        master: str,
        framework: Callable[[], Mapping[str, Any]],
        *,
        secret: str | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        silent_heartbeats: int = SILENT_HEARTBEATS,
        through: Callable[[str], str] = str,
    ) -> None:
        """`master` is host:port, host, or zk://host1:port1,host2:port2/path.

        `framework` gives the FrameworkInfo without its id; it is asked at each connection, from any thread.
        `secret` is that of its principal, shown with every call (HTTP basic authentication). A master that sends
        nothing for `silent_heartbeats` times `heartbeat_s` is as good as gone. `through` returns the address at which a
        master is to be had: where it is, or the way to it over TLS.
        """
        self._heartbeat_s, self._silence_s = heartbeat_s, heartbeat_s * silent_heartbeats
        self._secret, self._through = secret, through
        self._master, self._framework = re.sub(r"^https?://", "", master).rstrip("/"), framework
        self._inbox: Inbox = _nowhere
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._worker = threading.Thread(target=self._work, name="calls to the master", daemon=True)
        self._driver: Driver | None = None
        self._made: list[Driver] = []
        self._rebuilds = 0
        self._roles: Sequence[Role] | None = None

    def start(self, framework_id: FrameworkId | None, inbox: Inbox) -> None:
        """See MesosLink."""
        self._inbox = inbox
        self._jobs.put(lambda: self._connect(framework_id))
        self._worker.start()

    def call(self, call: Call) -> None:
        """See MesosLink."""
        self._jobs.put(call if isinstance(call, Acknowledge) else lambda: self._perform(call))

    def stop(self) -> None:
        """See MesosLink. Waits for a call that is on its way."""
        self._stopping.set()
        self._jobs.put(None)
        if self._worker.ident is not None:
            self._worker.join()

    def consume_interrupt(self) -> bool:
        """Return whether a SIGINT that has just arrived came from an aborting driver; each abort counts once."""
        for driver in self._made:
            if driver.gave_up and not driver.interrupt_seen:
                driver.interrupt_seen = True
                return True
        return False

    def _work(self) -> None:
        jobs: deque[Job] = deque()
        while True:
            try:
                jobs.append(self._jobs.get(block=not jobs, timeout=self._heartbeat_s))
                if len(jobs) < TOGETHER:
                    continue
            except queue.Empty:
                if not jobs:
                    self._watch()
                    continue
            job = jobs.popleft()
            if job is None:
                break
            if not isinstance(job, Acknowledge):
                job()
                continue
            together = [job]
            while jobs and isinstance(jobs[0], Acknowledge):
                together.append(jobs.popleft())  # type: ignore[arg-type]
            self._acknowledge(together)
        if self._driver is not None:
            self._driver.stop()
            self._driver.join()

    def _connect(self, framework_id: FrameworkId | None) -> None:
        framework = dict(self._framework())
        if self._roles is not None:
            framework["roles"] = list(self._roles)
        if framework_id is not None:
            framework["id"] = {"value": framework_id}
        self._driver = driver = Driver(
            self._inbox, framework, self._master, self._driver_ended, self._secret, self._through
        )
        self._made = [made for made in self._made if made.gave_up and not made.interrupt_seen]
        self._made.append(driver)
        try:
            driver.start()
        except Exception as error:  # kazoo has errors of its own for every trouble with ZooKeeper
            log.warning("cannot look for a master at %s: %s", self._master, error)
            driver.stop()
            self._jobs.put(lambda: self._replace(driver))

    def _driver_ended(self, driver: Driver) -> None:
        if driver.gave_up:
            self._jobs.put(lambda: self._replace(driver))

    def _replace(self, driver: Driver) -> None:
        """Put a new driver in the place of one that has given up."""
        if driver is not self._driver:
            return
        self._rebuilds = 0 if driver.subscriptions else self._rebuilds
        pause_s = min(LONGEST_REBUILD_S, FIRST_REBUILD_S * 2 ** min(self._rebuilds, 10))
        self._rebuilds += 1
        log.warning("the connection to %s broke down; trying again in %g s", self._master, pause_s)
        if not self._stopping.wait(pause_s):
            self._connect(driver.framework_id)

    def _watch(self) -> None:
        driver = self._driver
        if driver is not None and not driver.gave_up and monotonic() - driver.heard_at > self._silence_s:
            log.warning("nothing from the master for %g s; connecting again", self._silence_s)
            self._drop(driver)
            self._connect(driver.framework_id)

    def _drop(self, driver: Driver) -> None:
        driver.stop()
        driver.join()

    def _perform(self, call: Call) -> None:
        driver = self._driver
        if isinstance(call, Resubscribe):
            if driver is not None:
                self._drop(driver)
            self._connect(None)
            return
        if isinstance(call, UpdateRoles):
            self._roles = call.roles
        try:
            if driver is None:
                raise Unavailable("there is no connection to a master")
            before = driver.sent
            try:
                send(driver, call)
            except (ConnectionError, HTTPException):
                # A connection that was closed for being idle costs pymesos one call. A launch may have arrived all
                # the same, and twice would be an error; the scheduler asks the master what became of it.
                if isinstance(call, Launch):
                    raise
                send(driver, call)
            if driver.sent == before:
                raise Unavailable("not connected to a master")
        except Exception as error:  # what http.client and sockets raise has no common base but this
            self._failed(call, str(error) or type(error).__name__)

    def _acknowledge(self, calls: Sequence[Acknowledge]) -> None:
        """Send acknowledgements together, and once more those that are not answered: twice does no harm."""
        left = deque(calls)
        try:
            if self._driver is None or not self._driver.connected:
                raise Unavailable("not connected to a master")
            try:
                self._send_acknowledgements(self._driver, left)
            except (ConnectionError, HTTPException):
                self._send_acknowledgements(self._driver, left)
        except Exception as error:  # as above
            for call in left:
                self._failed(call, str(error) or type(error).__name__)

    def _send_acknowledgements(self, driver: Driver, left: deque[Acknowledge]) -> None:
        """Send what is left, and take from it what was answered."""
        for refusal in driver.send_together([driver.acknowledgement(call.status) for call in left]):
            call = left.popleft()
            if refusal is not None:
                self._failed(call, refusal)

    def _failed(self, call: Call, problem: str) -> None:
        if not self._stopping.is_set():
            log.warning("%s did not reach the master: %s", type(call).__name__, problem)
        self._inbox(CallFailed(call, problem))


def _nowhere(_: object) -> None:
    """Take news before the start: there is none."""
