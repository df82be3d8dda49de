"""The wire to the agents: libprocess messages in Mesos' internal form outside, v1 documents and events inside.

Source: Mesos src/messages/messages.proto, src/master/master.cpp (initialize: which messages are taken).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mesos_gpu.errors import ProtocolError
from mesos_gpu.master.agent_link.absences import Absences
from mesos_gpu.master.agent_link.authentication import Authenticators
from mesos_gpu.master.agent_link.observers import Observer, Pace, RemovalLimit
from mesos_gpu.master.decisions.permissions import registration_refusal
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.agents import AgentSilent, LinkBroken
from mesos_gpu.master.state.actions import AboutOperations, RunTask, RunTaskGroup, ShutdownAgent, ToAgent
from mesos_gpu.master.wire.from_agents import READERS
from mesos_gpu.master.wire.to_agents import Books, message_of
from mesos_gpu.mesos.ids import AgentId, FrameworkId
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode_to_v1, encode_from_parts, encode_from_v1
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.process.connections import Overtaking
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

PROCESS_ID = "master"
_PREFIX = "mesos.internal."


class Drivers(Protocol):
    """The way to scheduler drivers, which talk to the same process as agents."""

    def take(self, message: Message) -> bool:
        """Deal with a message; return whether it is one that drivers send."""


class AgentLink:
    """Takes agents' messages into the engine, and carries its actions to them."""

    def __init__(
        self,
        engine: Engine,
        endpoint: Endpoint,
        pace: Pace,
        authenticators: Authenticators,
        *,
        only_authenticated: bool = False,
        limit: RemovalLimit | None = None,
        patience_s: float = 600.0,
        most_missing: float = 1.0,
    ) -> None:
        """`only_authenticated`: agents that have not shown who they are are not registered.

        `patience_s`: how long an agent that is away may take to come back; `most_missing`: the share of those known
        at the start that may be missing then.
        """
        self._engine, self._endpoint, self._pace = engine, endpoint, pace
        self._authenticators, self._only_authenticated = authenticators, only_authenticated
        self._limit = limit or RemovalLimit()
        self._absences = Absences(engine, self._limit, patience_s, most_missing=most_missing)
        self._introductions = Overtaking(endpoint.is_open)
        self._observers: dict[str, Observer] = {}
        self._made = 0
        self.drivers: Drivers | None = None
        """Gets what is not for agents."""

    def _is_late(self, name: str, message: Message) -> bool:
        """Return whether it is of a process that was killed, or of before one that has come since.

        What it lists may have ended, and nobody would say so again; its resources have another version by now.
        """
        if name == "UpdateSlaveMessage":
            return self._introductions.is_late(message)
        if name not in _INTRODUCTIONS or not self._introductions.is_older(message):
            return False
        self._endpoint.hang_up(message.connection)
        return True

    def listen(self) -> None:
        """Take agents' messages from now on."""
        self._endpoint.spawn(PROCESS_ID, self._on_message, self._on_exited)

    def stop(self) -> None:
        """Ping nobody any more and take no more messages."""
        for observer in self._observers.values():
            observer.stop()
        self._observers.clear()
        self._authenticators.stop()
        self._limit.stop()
        self._endpoint.terminate(PROCESS_ID)

    def await_recovered(self) -> None:
        """Wait for the agents of the registry to re-register; those that do not in time become unreachable.

        They are not pinged before: by now an agent may belong to another master, or another process have its address.
        Source: Mesos src/master/master.cpp, Master::_recover (recoveredTimer).
        """
        self._absences.begin()

    def observe(self, agent_id: AgentId) -> None:
        """Link to an agent that has just registered, and ping it from now on."""
        self._absences.back(agent_id)
        pid = self._engine.state.agents[agent_id].pid
        self._endpoint.link(PROCESS_ID, Pid.parse(pid))
        self._watch(agent_id, pid)

    def forget(self, agent_id: AgentId) -> None:
        """Stop pinging it."""
        observer = self._observers.pop(agent_id, None)
        if observer is not None:
            observer.stop()

    def part(self, agent_id: AgentId, *, silent: bool = False) -> None:
        """Have nothing to do with an agent any more; the connection to it may be half open.

        With `silent`, what is on the way to it is taken back: a launch that arrived after all would run unknown to us.
        """
        self._absences.back(agent_id)
        observer = self._observers.get(agent_id)
        if observer is not None:
            self._endpoint.unlink(observer.to, silent=silent)
        self.forget(agent_id)

    def perform(self, action: ToAgent) -> None:
        """Send an agent the message of an action; one that is not here any more gets none."""
        if isinstance(action, ShutdownAgent):
            self._send(Pid.parse(action.pid), "ShutdownMessage", {"message": action.message})
            return
        agent = self._engine.state.agents.get(action.agent_id)
        if agent is None or (isinstance(action, AboutOperations) and not agent.connected):
            return
        name, document = message_of(action, Books(agent, self._driver_pid, self._pace.total_s))
        # A launch is nearly all what its framework said, as it was read here.
        encode = encode_from_parts if isinstance(action, (RunTask, RunTaskGroup)) else encode_from_v1
        self._send(Pid.parse(agent.pid), name, document, encode)

    def _driver_pid(self, framework_id: FrameworkId) -> str | None:
        framework = self._engine.state.frameworks.get(framework_id)
        return None if framework is None else framework.pid

    def _send(
        self,
        to: Pid,
        name: str,
        document: Mapping[str, Any],
        encode: Callable[[str, Mapping[str, Any]], bytes] = encode_from_v1,
    ) -> None:
        full_name = _PREFIX + name
        self._endpoint.send(PROCESS_ID, to, full_name, encode(full_name, document))

    def removals(self) -> Mapping[str, int]:
        """Return how many agents were to be unreachable, are since, or answered in time."""
        return self._limit.counts

    def _watch(self, agent_id: AgentId, pid: str) -> None:
        self.forget(agent_id)
        self._made += 1

        def connected() -> bool:
            agent = self._engine.state.agents.get(agent_id)
            return agent is not None and agent.connected

        def lost() -> None:
            self._engine.do(AgentSilent(agent_id))

        process_id = f"slave-observer({self._made})"
        self._observers[agent_id] = Observer(
            self._endpoint, process_id, Pid.parse(pid), self._pace, connected, lost, self._limit
        )

    def _on_exited(self, pid: Pid) -> None:
        where = str(pid)
        self._authenticators.forget(where)
        for agent in self._engine.state.agents.values():
            if agent.pid == where and agent.connected:
                self._absences.away(agent.id)
        self._engine.do(LinkBroken(where))

    def _on_message(self, message: Message) -> None:
        name = message.name.removeprefix(_PREFIX)
        if name == "AuthenticateMessage":
            self._engine.count("messages_authenticate")
            self._authenticate(message)
            return
        reader = READERS.get(name)
        if reader is None:
            if self.drivers is not None and self.drivers.take(message):
                return
            log.info("ignoring %s from %s: this master does not know it", message.name, message.sender)
            return
        counter = _COUNTERS.get(name)
        if counter is not None:
            self._engine.count(counter)
        if self._is_late(name, message):
            log.warning("ignoring %s from %s: a later one has come over a newer connection", name, message.sender)
            return
        if name in _INTRODUCTIONS and not self._may_register(str(message.sender)):
            log.warning("refusing the registration of the agent at %s: it has not authenticated", message.sender)
            return
        try:
            document = decode_to_v1(message.name, message.body)
            event = reader(document, str(message.sender))
        except ProtocolError as error:
            log.warning("ignoring a message from %s: %s", message.sender, error)
            return
        if name in _INTRODUCTIONS:
            refusal = self._registration_refusal(name, document, message.sender)
            if refusal is not None:
                log.warning("refusing the registration of the agent at %s: %s", message.sender, refusal)
                self._send(message.sender, "ShutdownMessage", {"message": refusal})
                return
        self._engine.do(event)

    def _may_register(self, pid: str) -> bool:
        return not self._only_authenticated or pid in self._authenticators.principals

    def _registration_refusal(self, name: str, document: Document, sender: Pid) -> str | None:
        known = self._authenticators.principals.get(str(sender))
        principal = None if known is None else Principal(known)
        again = name == "ReregisterSlaveMessage"
        return registration_refusal(self._engine.state, principal, document["slave"], again=again)

    def _authenticate(self, message: Message) -> None:
        try:
            self._authenticators.authenticate(message)
        except ProtocolError as error:
            log.warning("ignoring a message from %s: %s", message.sender, error)


_INTRODUCTIONS = frozenset({"RegisterSlaveMessage", "ReregisterSlaveMessage"})
_COUNTERS: Mapping[str, str] = {
    "RegisterSlaveMessage": "messages_register_slave",
    "ReregisterSlaveMessage": "messages_reregister_slave",
    "UnregisterSlaveMessage": "messages_unregister_slave",
    "UpdateSlaveMessage": "messages_update_slave",
    "UpdateOperationStatusMessage": "messages_operation_status_update",
    "StatusUpdateMessage": "messages_status_update",
    "ExitedExecutorMessage": "messages_exited_executor",
    "ExecutorToFrameworkMessage": "messages_executor_to_framework",
}
