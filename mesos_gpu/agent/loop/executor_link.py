"""The wire to executors with libmesos' driver: they register by libprocess messages instead of opening a stream.

An executor is its driver's pid from its registration on. A driver waits for the agent to come back after a restart:
it is asked to register again (ReconnectExecutorMessage). Source: Mesos src/slave/slave.cpp (registerExecutor,
reregisterExecutor, _recover), src/exec/exec.cpp.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mesos_gpu.agent.cluster.master_link import PROCESS_ID
from mesos_gpu.agent.loop.executor_messages import Driver, messages_of, status_of
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import ExecutorKey, Stage
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.ids import AgentId, TaskId
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode_to_v1, encode_from_v1
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.endpoint import Endpoint

if TYPE_CHECKING:
    from mesos_gpu.agent.decisions.state import AgentState
    from mesos_gpu.agent.loop.executor_api import ExecutorStreams

log = logging.getLogger(__name__)

_PREFIX = "mesos.internal."


class ExecutorLink:
    """Takes executors' messages into the agent, and carries events to them. `state` is only read.

    `ready` says whether recovery has come so far that executors may come.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        state: AgentState,
        streams: ExecutorStreams,
        *,
        post: Callable[[ev.Event], None],
        ready: Callable[[], bool],
    ) -> None:
        self._endpoint, self._state, self._streams = endpoint, state, streams
        self._post, self._ready = post, ready
        self._keys: dict[str, ExecutorKey] = {}
        """Registered executors by the pid of their driver."""

    def take(self, message: Message) -> bool:
        """Deal with a message to the agent; return whether it is one that executors send."""
        name = message.name.removeprefix(_PREFIX)
        handle = {
            "RegisterExecutorMessage": self._register,
            "ReregisterExecutorMessage": self._reregister,
            "StatusUpdateMessage": self._update,
            "ExecutorToFrameworkMessage": self._message,
        }.get(name)
        if handle is None:
            return False
        try:
            handle(decode_to_v1(message.name, message.body), message.sender)
        except ProtocolError as error:
            log.warning("ignoring %s from %s: %s", name, message.sender, error)
        return True

    def reconnect(self, pid: str, agent_id: AgentId) -> None:
        """Ask the driver of a recovered executor to register again."""
        self._send(pid, "ReconnectExecutorMessage", {"slave_id": {"value": agent_id}})

    def _register(self, document: Document, sender: Pid) -> None:
        key = _key(document)
        executor = self._state.frameworks.executor(key)
        new = executor is not None and not executor.recovered
        self._admit(key, str(sender), ev.Subscribed(key, pid=str(sender)), expected=new)

    def _reregister(self, document: Document, sender: Pid) -> None:
        key = _key(document)
        if self._keys.get(str(sender)) == key:
            log.info("ignoring that executor %s of %s registers again: it is registered", key.executor, key.framework)
            return
        executor = self._state.frameworks.executor(key)
        tasks = tuple(TaskId(task["task_id"]["value"]) for task in document.get("tasks", ()))
        updates = tuple(status_of(update, key) for update in document.get("updates", ()))
        event = ev.Subscribed(key, tasks, updates, pid=str(sender))
        self._admit(key, str(sender), event, expected=executor is not None and executor.recovered)

    def _admit(self, key: ExecutorKey, pid: str, event: ev.Subscribed, *, expected: bool) -> None:
        """Let an executor register that is waited for; tell any other to end."""
        executor, why = self._state.frameworks.executor(key), None
        if not self._ready():
            why = "this agent is recovering"
        elif self._state.identity.executor_key is not None:
            why = "executors have to show a token here, and libmesos' driver shows none"
        elif executor is None or not expected or executor.stage not in (Stage.LAUNCHING, Stage.REGISTERING):
            why = "no such executor is waited for"
        if why is not None or executor is None:
            log.warning("telling executor %s of %s at %s to end: %s", key.executor, key.framework, pid, why)
            self._send(pid, "ShutdownExecutorMessage", {})
            return
        self._endpoint.link(PROCESS_ID, Pid.parse(pid))
        self._keys[pid] = key
        framework = self._state.frameworks.active[key.framework]
        driver = Driver(key, self._state.identity.agent_id, framework.info, framework.pid, executor.recovered)
        self._streams.open(key, _DriverStream(self, pid, driver))
        self._post(event)

    def _update(self, document: Document, sender: Pid) -> None:
        key = self._registered(sender)
        self._post(ev.ExecutorSays(key, status_of(document["update"], key)))

    def _message(self, document: Document, sender: Pid) -> None:
        self._post(ev.ExecutorMessage(self._registered(sender), document["data"]))

    def _registered(self, sender: Pid) -> ExecutorKey:
        key = self._keys.get(str(sender))
        if key is None:
            raise ProtocolError("no executor that has registered is there")
        return key

    def forget(self, pid: str) -> None:
        """Take nothing more from a driver."""
        self._keys.pop(pid, None)

    def send(self, pid: str, messages: list[tuple[str, Document]]) -> None:
        """Send messages to a driver."""
        for name, document in messages:
            self._send(pid, name, document)

    def _send(self, pid: str, name: str, document: Document) -> None:
        full_name = _PREFIX + name
        self._endpoint.send(PROCESS_ID, Pid.parse(pid), full_name, encode_from_v1(full_name, document))


class _DriverStream:
    """One executor's driver, in the place of an open stream."""

    def __init__(self, link: ExecutorLink, pid: str, driver: Driver) -> None:
        self._link, self._pid, self._driver = link, pid, driver

    def send(self, event: Document) -> None:
        """Send the messages for an event."""
        self._link.send(self._pid, messages_of(event, self._driver))

    def close(self) -> None:
        """Stop taking and sending."""
        self._link.forget(self._pid)


def _key(document: Document) -> ExecutorKey:
    return ExecutorKey(document["framework_id"]["value"], document["executor_id"]["value"])
