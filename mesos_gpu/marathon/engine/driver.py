"""The connection to a Mesos master through pymesos: the only module of this room that imports it.

pymesos 0.3.15 is used whole; what must be met about it is met here:

* Importing it takes over SIGINT: the handler from before is put back. A driver that aborts raises SIGINT in the main
  thread: `consume_interrupt` tells such a signal from a person's.
* Its driver aborts for good on any answer it does not expect: a new one is made, with growing delays.
* A stop or an abort tears the framework down, and every task with it, unless told otherwise: it never is here.
* After a TCP connection that succeeded it reconnects without any pause: `on_close` makes one.
* Headers are one dictionary shared by all drivers of a process, the timeout of a call is a day, a call without a
  connection is dropped in silence, and no watchdog notices a master that is gone: each is mended below.
* Callbacks run in its I/O thread, and an exception there aborts it: ours only put an event into the inbox. Calls are
  made by one thread of ours, in order. Statuses are acknowledged explicitly, after they are on disk.
"""

from __future__ import annotations

import logging
import queue
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import Any

from typing_extensions import assert_never

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.engine.master_info import address, region
from mesos_gpu.marathon.engine.mesos_link import Inbox
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Call,
    Decline,
    Kill,
    Launch,
    Reconcile,
    Resubscribe,
    Revive,
    Suppress,
    Tell,
    UpdateRoles,
)
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Disconnected,
    FrameworkError,
    Offered,
    Rescinded,
    Status,
    Subscribed,
)
from mesos_gpu.mesos.documents import OfferDocument, TaskStatus
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role, TaskId

_sigint_before = signal.getsignal(signal.SIGINT)
import pymesos  # noqa: E402

if _sigint_before is not None:
    signal.signal(signal.SIGINT, _sigint_before)

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
HEARTBEAT_S, SILENT_HEARTBEATS = 15.0, 5
"""A master that sends nothing for so many times so long is as good as gone, by default."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0
"""Pauses between attempts to subscribe."""
FIRST_REBUILD_S, LONGEST_REBUILD_S = 0.5, 15.0
"""Pauses before an aborted driver is replaced."""


class _Terse(logging.Filter):
    """Makes one line of pymesos' tracebacks: a master that is down for a while is not worth pages."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            record.msg, record.args = f"{record.getMessage()} {type(error).__name__}: {error}", ()
            record.exc_info = None
        return True


for _name in ("pymesos.process", "pymesos.scheduler"):
    logging.getLogger(_name).addFilter(_Terse())
# It prints to stderr by itself, beside whatever logging the program has.
logging.getLogger("pymesos").handlers.clear()


class _Scheduler(pymesos.Scheduler):  # type: ignore[misc]
    """Passes pymesos' callbacks on as events."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def registered(self, driver: _Driver, framework_id: Mapping[str, Any], master_info: Mapping[str, Any]) -> None:
        where = driver.named or address(master_info)
        self._inbox(Subscribed(framework_id["value"], where, again=False, region=region(master_info)))

    def reregistered(self, driver: _Driver, master_info: Mapping[str, Any]) -> None:
        where = driver.named or address(master_info)
        self._inbox(Subscribed(FrameworkId(driver.framework_id), where, again=True, region=region(master_info)))

    def disconnected(self, driver: _Driver) -> None:
        self._inbox(Disconnected())

    def resourceOffers(self, driver: _Driver, offers: list[OfferDocument]) -> None:
        self._inbox(Offered(offers))

    def offerRescinded(self, driver: _Driver, offer_id: Mapping[str, str]) -> None:
        self._inbox(Rescinded(offer_id["value"]))

    def statusUpdate(self, driver: _Driver, update: TaskStatus) -> None:
        self._inbox(Status(update))

    def error(self, driver: _Driver, message: str) -> None:
        self._inbox(FrameworkError(message))


class _Driver(pymesos.MesosSchedulerDriver):  # type: ignore[misc]
    """pymesos' driver with the mendings of the module's docstring. `ended` is called when its I/O thread ends."""

    def __init__(
        self,
        inbox: Inbox,
        framework: dict[str, Any],
        master: str,
        ended: Callable[[_Driver], None],
        secret: str | None = None,
        through: Callable[[str], str] = str,
    ) -> None:
        self._through = through
        self.named: str | None = None
        super().__init__(
            _Scheduler(inbox),
            framework,
            master,
            implicit_acknowledgements=False,
            principal=framework.get("principal"),
            secret=secret,
            failover=True,
        )
        self._ended = ended
        self._asked_to_stop = threading.Event()
        self._failures = 0
        self.began = self.interrupt_seen = False
        self.heard_at, self.sent = monotonic(), 0
        self.subscriptions = 0

    @property
    def framework(self) -> dict[str, Any]:
        """The FrameworkInfo as it was given: capabilities are the caller's business, whatever the master's version."""
        return dict(self._framework)

    @property
    def gave_up(self) -> bool:
        """Return whether it has aborted, and was not stopped."""
        return self.began and bool(self.aborted) and not self._asked_to_stop.is_set()

    def start(self) -> None:
        super().start()
        self.began = True

    def stop(self, failover: bool = True) -> None:
        self._asked_to_stop.set()
        super().stop(failover=failover)

    def change_master(self, master: str | None) -> None:
        """Go to another master, by the way that leads there: named, found in ZooKeeper, or redirected to."""
        self.named = master  # pymesos tells where it connects to, which may be the way and not the master
        super().change_master(None if master is None else self._through(master))

    def on_event(self, event: dict[str, Any]) -> None:
        self.heard_at = monotonic()
        super().on_event(event)

    def on_subscribed(self, info: dict[str, Any]) -> None:
        self._failures = 0
        self.subscriptions += 1
        super().on_subscribed(info)

    def on_close(self) -> None:
        self.stream_id = None
        self.heard_at = monotonic()
        super().on_close()
        self._failures += 1
        if not self.aborted:
            self._asked_to_stop.wait(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures - 1, 10)))

    def update_roles(self, roles: Sequence[Role]) -> None:
        """Tell the master that we are a framework of these roles from now on; pymesos knows no such call."""
        # Subscribing again takes the FrameworkInfo from here.
        self._framework: dict[str, Any] = {**self.framework, "roles": list(roles)}
        self._call("UPDATE_FRAMEWORK", {"framework_info": {**self._framework, "id": {"value": self.framework_id}}})

    def kill(self, task_id: TaskId, agent_id: AgentId | None) -> None:
        """End a task; pymesos' killTask names no agent."""
        self._call("KILL", _task_at(task_id, agent_id))

    def tell(self, task_id: TaskId, agent_id: AgentId, data: str) -> None:
        """Send the executor of a task of one command, which has its id, what is base64 already."""
        to = {"agent_id": {"value": agent_id}, "executor_id": {"value": task_id}}
        self._call("MESSAGE", {**to, "data": data})

    def reconcile(self, agents: Mapping[TaskId, AgentId]) -> None:
        """Ask for the states of tasks, agents' ids by theirs; pymesos' reconcileTasks drops the agents."""
        self._call("RECONCILE", {"tasks": [_task_at(task_id, agent_id) for task_id, agent_id in agents.items()]})

    def _call(self, kind: str, body: Mapping[str, Any]) -> None:
        if self.connected:
            framework_id = {"value": self.framework_id}
            self._send({"type": kind, "framework_id": framework_id, kind.lower(): body})

    def _backoff(self, num_conn_retry: int) -> float:
        return 0.0  # on_close has waited

    def _get_version(self, master: str | None) -> str | None:
        return None  # only wanted for masters before 1.0; it would block, and chokes on versions like 1.12.0-dev

    def _get_conn(self) -> HTTPConnection | None:
        connection: HTTPConnection | None = super()._get_conn()
        if connection is not None:
            connection.timeout = CALL_TIMEOUT_S
        return connection

    def _send(
        self, body: Any, path: str = "/api/v1/scheduler", method: str = "POST", headers: Mapping[str, str] | None = None
    ) -> Any:
        self.sent += 1
        return super()._send(body, path, method, dict(headers or {}))

    def _shutdown(self) -> None:
        self._ended(self)


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
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._worker = threading.Thread(target=self._work, name="calls to the master", daemon=True)
        self._driver: _Driver | None = None
        self._made: list[_Driver] = []
        self._rebuilds = 0
        self._roles: Sequence[Role] | None = None

    def start(self, framework_id: FrameworkId | None, inbox: Inbox) -> None:
        """See MesosLink."""
        self._inbox = inbox
        self._jobs.put(lambda: self._connect(framework_id))
        self._worker.start()

    def call(self, call: Call) -> None:
        """See MesosLink."""
        self._jobs.put(lambda: self._perform(call))

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
        while True:
            try:
                job = self._jobs.get(timeout=self._heartbeat_s)
            except queue.Empty:
                self._watch()
                continue
            if job is None:
                break
            job()
        if self._driver is not None:
            self._driver.stop()
            self._driver.join()

    def _connect(self, framework_id: FrameworkId | None) -> None:
        framework = dict(self._framework())
        if self._roles is not None:
            framework["roles"] = list(self._roles)
        if framework_id is not None:
            framework["id"] = {"value": framework_id}
        self._driver = driver = _Driver(
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

    def _driver_ended(self, driver: _Driver) -> None:
        if driver.gave_up:
            self._jobs.put(lambda: self._replace(driver))

    def _replace(self, driver: _Driver) -> None:
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

    def _drop(self, driver: _Driver) -> None:
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
                _send(driver, call)
            except (ConnectionError, HTTPException):
                # A connection that was closed for being idle costs pymesos one call. A launch may have arrived all
                # the same, and twice would be an error; the scheduler asks the master what became of it.
                if isinstance(call, Launch):
                    raise
                _send(driver, call)
            if driver.sent == before:
                raise Unavailable("not connected to a master")
        except Exception as error:  # what http.client and sockets raise has no common base but this
            if not self._stopping.is_set():
                log.warning("%s did not reach the master: %s", type(call).__name__, error)
            self._inbox(CallFailed(call, str(error) or type(error).__name__))


def _send(driver: _Driver, call: Call) -> None:
    match call:
        case Launch(offer_id=offer_id, refuse_s=refuse_s):
            driver.acceptOffers([{"value": offer_id}], _operations(call), {"refuse_seconds": refuse_s})
        case Decline(offer_ids=offer_ids, refuse_s=refuse_s):
            driver.declineOffer([{"value": offer_id} for offer_id in offer_ids], {"refuse_seconds": refuse_s})
        case Revive():
            driver.reviveOffers()
        case Suppress():
            driver.suppressOffers()
        case Kill(task_id=task_id, agent_id=agent_id):
            driver.kill(task_id, agent_id)
        case Tell(task_id=task_id, agent_id=agent_id, data=data):
            driver.tell(task_id, agent_id, data)
        case Acknowledge(status=status):
            driver.acknowledgeStatusUpdate(status)
        case Reconcile(agents=agents):
            driver.reconcile(agents)
        case UpdateRoles(roles=roles):
            driver.update_roles(roles)
        case Resubscribe():
            raise TypeError("Resubscribe is not a message")
        case _:
            assert_never(call)


def _task_at(task_id: TaskId, agent_id: AgentId | None) -> dict[str, Any]:
    task = {"task_id": {"value": task_id}}
    return task if agent_id is None else {**task, "agent_id": {"value": agent_id}}


def _operations(call: Launch) -> list[dict[str, Any]]:
    """Return all that is to be done on an offer as Mesos' operations, in the order in which it must be."""
    single = {"type": "LAUNCH", "launch": {"task_infos": list(call.task_infos)}}
    groups = [
        {
            "type": "LAUNCH_GROUP",
            "launch_group": {"executor": group.executor, "task_group": {"tasks": list(group.task_infos)}},
        }
        for group in call.groups
    ]
    return [*map(dict, call.operations), *([single] if call.task_infos else []), *groups]


def _nowhere(_: object) -> None:
    """Take news before the start: there is none."""
