"""The connection to a Mesos master through pymesos: the only module of this room that imports it.

pymesos 0.3.15 is used whole; what must be met about it is met here:

* Importing it takes over SIGINT: the handler from before is put back. A driver that aborts raises SIGINT in the main
  thread: `consume_interrupt` tells such a signal from a person's.
* Its driver aborts for good on any answer it does not expect: a new one is made, with growing delays.
* A stop or an abort tears the framework down, and every task with it, unless told otherwise: it never is here.
* After a TCP connection that succeeded it reconnects without any pause: `on_close` makes one.
* Headers are one dictionary shared by all drivers of a process, the timeout of a call is a day, a call without a
  connection is dropped in silence, and no watchdog notices a master that is gone: each is mended below.
* A call takes as long as its way there and back: acknowledgements, one for each status, go together over a connection
  of our own (call_connection.py). Events are read 4 KiB at a time and by json: in larger pieces, by msgspec, here.
* Callbacks run in its I/O thread, and an exception there aborts it: ours only put an event into the inbox. Calls are
  made by one thread of ours, in order. Statuses are acknowledged explicitly, after they are on disk.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec
from typing_extensions import assert_never

from mesos_gpu.marathon.engine.call_connection import CallConnection
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


class _Json:
    """What pymesos reads events by: in half the time, and what only the standard library takes by that."""

    @staticmethod
    def loads(text: str) -> Any:
        """Return what a text says. Raises ValueError."""
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return json.loads(text)


if _sigint_before is not None:
    signal.signal(signal.SIGINT, _sigint_before)

log = logging.getLogger(__name__)

# How much it reads at a time: for each piece it goes round its loop once. Of what is left of a piece it makes a copy
# for each event in it, so that much more would cost more.
pymesos.process.PIPE_BUF = 32 * 1024
pymesos.process.json = _Json

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

    def registered(self, driver: Driver, framework_id: Mapping[str, Any], master_info: Mapping[str, Any]) -> None:
        where = driver.named or address(master_info)
        self._inbox(Subscribed(framework_id["value"], where, again=False, region=region(master_info)))

    def reregistered(self, driver: Driver, master_info: Mapping[str, Any]) -> None:
        where = driver.named or address(master_info)
        self._inbox(Subscribed(FrameworkId(driver.framework_id), where, again=True, region=region(master_info)))

    def disconnected(self, driver: Driver) -> None:
        self._inbox(Disconnected())

    def resourceOffers(self, driver: Driver, offers: list[OfferDocument]) -> None:
        self._inbox(Offered(offers))

    def offerRescinded(self, driver: Driver, offer_id: Mapping[str, str]) -> None:
        self._inbox(Rescinded(offer_id["value"]))

    def statusUpdate(self, driver: Driver, update: TaskStatus) -> None:
        self._inbox(Status(update))

    def error(self, driver: Driver, message: str) -> None:
        self._inbox(FrameworkError(message))


class Driver(pymesos.MesosSchedulerDriver):  # type: ignore[misc]
    """pymesos' driver with the mendings of the module's docstring. `ended` is called when its I/O thread ends."""

    stream_id: str | None

    def __init__(
        self,
        inbox: Inbox,
        framework: dict[str, Any],
        master: str,
        ended: Callable[[Driver], None],
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
        self._conn: CallConnection | None = None
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
        """Look for the master, and subscribe."""
        super().start()
        self.began = True

    def stop(self, failover: bool = True) -> None:
        """End for good; without `failover` the framework and its tasks end, too."""
        self._asked_to_stop.set()
        super().stop(failover=failover)

    def change_master(self, master: str | None) -> None:
        """Go to another master, by the way that leads there: named, found in ZooKeeper, or redirected to."""
        self.named = master  # pymesos tells where it connects to, which may be the way and not the master
        super().change_master(None if master is None else self._through(master))

    def on_event(self, event: dict[str, Any]) -> None:
        """Take an event of the master's."""
        self.heard_at = monotonic()
        super().on_event(event)

    def on_subscribed(self, info: dict[str, Any]) -> None:
        """Take the master's word that it has taken us in."""
        self._failures = 0
        self.subscriptions += 1
        super().on_subscribed(info)

    def on_close(self) -> None:
        """Take note that the connection is gone, and wait before the next."""
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

    def _get_conn(self) -> CallConnection | None:
        if not self.connected:
            return None
        if self._conn is None:
            host, _, port = self.master.partition(":")
            self._conn = CallConnection(host, int(port), CALL_TIMEOUT_S)
        return self._conn

    def _send(
        self, body: Any, path: str = "/api/v1/scheduler", method: str = "POST", headers: Mapping[str, str] | None = None
    ) -> Any:
        refusals = [refusal for refusal in self.send_together([body]) if refusal is not None]
        if refusals:
            raise RuntimeError(refusals[0])
        return {}

    def send_together(self, bodies: Sequence[Any]) -> Iterator[str | None]:
        """Send calls without waiting for one's answer before the next; yield for each why it was refused, if it was.

        To be iterated to its end. For what it raises see CallConnection.posted.
        """
        with self._lock:
            connection = self._get_conn()
            if connection is None:
                raise RuntimeError("Not connected yet")
            self.sent += len(bodies)
            headers = {"Content-Type": "application/json"}
            if self.stream_id:
                headers["Mesos-Stream-Id"] = self.stream_id
            if self._basic_credential:
                headers["Authorization"] = self._basic_credential
            data = [msgspec.json.encode(body) for body in bodies]
            for answer in connection.posted("/api/v1/scheduler", headers, data):
                accepted = 200 <= answer.status < 300
                yield (
                    None if accepted else f"the master answered {answer.status}: {answer.body.decode(errors='replace')}"
                )

    def acknowledgement(self, status: TaskStatus) -> dict[str, Any]:
        """Return the call that acknowledges a status."""
        told = {key: status[key] for key in ("agent_id", "task_id", "uuid")}
        return {"type": "ACKNOWLEDGE", "framework_id": {"value": self.framework_id}, "acknowledge": told}

    def _shutdown(self) -> None:
        self._ended(self)


def send(driver: Driver, call: Call) -> None:
    """Make a call. Raises what Driver.send_together does; RuntimeError when it is refused."""
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
