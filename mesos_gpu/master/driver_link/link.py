"""The wire to scheduler drivers: their messages become events of the engine, the framework's events messages to them.

A driver takes messages from the pid alone that it has detected as the master's. Source: Mesos src/sched/sched.cpp.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec.structs import replace

from mesos_gpu.errors import BadInput, Forbidden, ProtocolError
from mesos_gpu.master.decisions import driver_subscriptions
from mesos_gpu.master.decisions.driver_subscriptions import caller_problem
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.schedulers import CALLS, Called, DriverAborted, DriverSubscribes
from mesos_gpu.master.wire.agent_forms import NO_PID
from mesos_gpu.master.wire.from_drivers import Asked, Refused, is_for_drivers, read
from mesos_gpu.master.wire.to_drivers import Books, message_of
from mesos_gpu.mesos.ids import AgentId, FrameworkId, TaskId
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import encode_from_v1
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

_PREFIX = "mesos.internal."
_MASTER = "master"


class Authentication(Protocol):
    """Who has shown who they are."""

    @property
    def principals(self) -> Mapping[str, str]:
        """Return principals by the pid that has shown them."""

    def under_way(self, pid: str) -> bool:
        """Return whether somebody at `pid` is about to show it."""


class DriverLink:
    """Takes drivers' messages into the engine, and carries its events to them."""

    def __init__(self, engine: Engine, endpoint: Endpoint, authentication: Authentication) -> None:
        self._engine, self._endpoint, self._authentication = engine, endpoint, authentication
        self._streams: dict[str, _DriverStream] = {}

    def take(self, message: Message) -> bool:
        """Deal with a message to the master; return whether it is one that drivers send."""
        if not is_for_drivers(message.name):
            return False
        pid = str(message.sender)
        try:
            asked = read(message.name, message.body, pid)
        except ProtocolError as error:
            log.warning("ignoring %s from %s: %s", message.name, pid, error)
            return True
        match asked:
            case DriverSubscribes():
                self._subscribe(asked)
            case Refused(why):
                self._fail(pid, why)
            case Asked():
                self._call(asked, pid)
        return True

    def _subscribe(self, asked: DriverSubscribes) -> None:
        pid = asked.pid
        if self._authentication.under_way(pid):
            log.info("ignoring a subscription from %s, which is authenticating; drivers ask again", pid)
            return
        asked = replace(asked, principal=self._authentication.principals.get(pid))
        if pid not in self._streams:
            self._streams[pid] = _DriverStream(self._engine, self._endpoint, pid, self._streams.pop)
        self._engine.open_stream(pid, self._streams[pid])
        self._engine.do(asked)

    def _call(self, asked: Asked, pid: str) -> None:
        framework = self._engine.state.frameworks.get(asked.framework_id)
        problem = caller_problem(framework, pid)
        if problem is not None or framework is None:
            log.warning("ignoring %s of framework %s from %s: %s", asked.kind, asked.framework_id, pid, problem)
            return
        if asked.kind == "DEACTIVATE":
            self._engine.do(DriverAborted(framework.id))
            return
        self._engine.count(f"calls_{asked.kind.lower()}")
        self._engine.do(Called(framework.id, asked.kind))
        if not framework.connected and not asked.old:
            # The link broke on this side alone; a driver cannot know, and gives up when it is told.
            self._fail(pid, driver_subscriptions.DISCONNECTED)
            return
        try:
            self._engine.do(CALLS[asked.kind](framework.id, asked.body))
        except (BadInput, Forbidden) as error:
            self._fail(pid, str(error))

    def _fail(self, pid: str, error: str) -> None:
        log.info("refusing what %s asks: %s", pid, error)
        _send(self._endpoint, pid, "FrameworkErrorMessage", {"message": error})


class _DriverStream:
    """One driver as a subscriber of the engine: events in, messages out."""

    def __init__(self, engine: Engine, endpoint: Endpoint, pid: str, closed: Callable[[str], object]) -> None:
        self._engine, self._endpoint, self._pid, self._closed = engine, endpoint, pid, closed
        self._framework_id = FrameworkId("")

    def send(self, event: Document) -> None:
        """Send the message for an event. Who is subscribed is linked to, so that the end of its process is told."""
        body = event.get(str(event["type"]).lower(), {})
        if event["type"] in (driver_subscriptions.REGISTERED, driver_subscriptions.REREGISTERED):
            self._framework_id = body["framework_id"]["value"]
            self._endpoint.link(_MASTER, Pid.parse(self._pid))
        message = message_of(event, Books(self._framework_id, self._agent_pid, self._task_state))
        if message is not None:
            _send(self._endpoint, self._pid, *message)

    def close(self) -> None:
        """Stop sending. The connection stays: other drivers may share it, and its end is of no interest then."""
        self._closed(self._pid)

    def _agent_pid(self, agent_id: AgentId) -> str:
        agent = self._engine.state.agents.get(agent_id)
        return NO_PID if agent is None else agent.pid

    def _task_state(self, task_id: TaskId) -> str | None:
        framework = self._engine.state.frameworks.get(self._framework_id)
        task = None if framework is None else framework.tasks.get(task_id)
        return None if task is None else task.state


def _send(endpoint: Endpoint, pid: str, name: str, document: Document) -> None:
    full_name = _PREFIX + name
    endpoint.send(_MASTER, Pid.parse(pid), full_name, encode_from_v1(full_name, document))
