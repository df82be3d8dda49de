"""The wire to the master: libprocess messages in Mesos' internal form outside, v1 documents and events inside.

Source: Mesos src/messages/messages.proto, src/slave/slave.cpp (initialize: which messages are taken from whom).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from mesos_gpu.agent.launching.launch import grace_s
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.operations import (
    ApplyOperation,
    KeepResources,
    OperationAcknowledged,
    OperationEvent,
    ReconcileOperations,
    SendOperationStatus,
)
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode_to_v1, encode_from_v1
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.uuids import uuid_in
from mesos_gpu.mesos.version import MESOS_VERSION
from mesos_gpu.process.connections import Overtaking
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

PROCESS_ID = "slave(1)"
CAPABILITIES = (
    "MULTI_ROLE",
    "HIERARCHICAL_ROLE",
    "RESERVATION_REFINEMENT",
    "RESOURCE_PROVIDER",
    "RESIZE_VOLUME",
    "AGENT_OPERATION_FEEDBACK",
    "AGENT_DRAINING",
    "TASK_RESOURCE_LIMITS",
)
"""What this agent claims: those of Mesos' src/slave/constants.cpp (AGENT_CAPABILITIES) that it has."""
_PREFIX = "mesos.internal."


class Welcome(Struct, frozen=True):
    """The master registered this agent, or knows it again."""

    agent_id: AgentId
    ping_timeout_s: float | None
    reconcile: tuple[ev.Reconcile, ...] = ()


class Ping(Struct, frozen=True):
    """An observer of agents asks whether this one is alive; the answer goes to `sender`.

    `ours`: the observer is the current master's. What another master thinks of this agent changes nothing here.
    """

    sender: Pid
    connected: bool
    ours: bool


class LinkBroke(Struct, frozen=True):
    """The connection to the master is gone."""


Incoming: TypeAlias = Welcome | Ping | LinkBroke | OperationEvent | ev.Event


class Executors(Protocol):
    """The way to executors whose drivers speak libprocess: they talk to the same process as the master does."""

    def take(self, message: Message) -> bool:
        """Deal with a message; return whether it is one that executors send."""


class MasterLink:
    """Sends to, and takes from, one master at a time. `deliver` is called in the event loop for each message."""

    def __init__(self, endpoint: Endpoint, deliver: Callable[[Incoming], None]) -> None:
        self._endpoint, self._deliver = endpoint, deliver
        self.master: Pid | None = None
        self._overtaking = Overtaking(endpoint.is_open)
        self.executors: Executors | None = None
        """Gets what is not for the agent's side of a master."""
        endpoint.spawn(PROCESS_ID, self._on_message, self._on_exited)

    @property
    def pid(self) -> Pid:
        """Return this agent's pid, as the master sees it."""
        return self._endpoint.pid(PROCESS_ID)

    def close(self) -> None:
        """Take no more messages."""
        self._endpoint.terminate(PROCESS_ID)

    # --- out ----------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Link to the master, before the first word to it."""
        if self.master is not None:
            self._endpoint.link(PROCESS_ID, self.master)

    def part(self) -> None:
        """Give up the link to the master: another leads, or nothing was heard for so long that it may be half open.

        What is on the way is taken back: a status update that came after those it was followed by would mislead.
        """
        if self.master is not None:
            self._endpoint.unlink(self.master, silent=True)

    def register(self, info: Document, resource_version: str, resources: Sequence[ResourceDocument]) -> None:
        """Link to the master and ask for an agent id; `info` has none yet."""
        self._introduce("RegisterSlaveMessage", {"slave": _slave_info(info)}, resource_version, resources)

    def reregister(
        self,
        info: Document,
        resource_version: str,
        resources: Sequence[ResourceDocument],
        *,
        tasks: Iterable[Document],
        frameworks: Iterable[FrameworkInfo],
        executors: Iterable[ExecutorInfo] = (),
    ) -> None:
        """Link to the master and say who we are and what runs here."""
        document: Document = {
            "slave": _slave_info(info),
            "tasks": list(tasks),
            "executor_infos": list(executors),
            "frameworks": list(frameworks),
        }
        self._introduce("ReregisterSlaveMessage", document, resource_version, resources)

    def unregister(self, agent_id: AgentId) -> None:
        """Say goodbye for good."""
        self._send("UnregisterSlaveMessage", {"slave_id": {"value": agent_id}})

    def update(self, key: TaskKey, status: TaskStatus, latest_state: str) -> None:
        """Send a status update, which the scheduler is to acknowledge."""
        update: Document = {
            "framework_id": {"value": key.framework},
            "slave_id": status["agent_id"],
            "status": status,
            "timestamp": status["timestamp"],
            "uuid": status["uuid"],
            "latest_state": latest_state,
        }
        if "executor_id" in status:
            update["executor_id"] = status["executor_id"]
        self._send("StatusUpdateMessage", {"update": update, "pid": str(self.pid)})

    def forward(self, send: Forward) -> None:
        """Send the head of an update stream."""
        self.update(send.key, send.status, send.latest_state)

    def executor_gone(self, agent_id: AgentId, framework: FrameworkId, executor: ExecutorId, status: int) -> None:
        """Say that an executor ended with this wait status, or (-1) nobody knows how, or it was never launched."""
        document = {
            "slave_id": {"value": agent_id},
            "framework_id": {"value": framework},
            "executor_id": {"value": executor},
            "status": status,
        }
        self._send("ExitedExecutorMessage", document)

    def executor_message(self, agent_id: AgentId, message: act.ToFramework) -> None:
        """Pass an executor's bytes on to its scheduler."""
        document = {
            "slave_id": {"value": agent_id},
            "framework_id": {"value": message.key.framework},
            "executor_id": {"value": message.key.executor},
            "data": message.data,
        }
        self._send("ExecutorToFrameworkMessage", document, None if message.pid is None else Pid.parse(message.pid))

    def update_agent(self, agent_id: AgentId, resource_version: str, operations: Iterable[Document]) -> None:
        """Say, after each registration, which operations are not acknowledged; there are no resource providers."""
        document = {
            "slave_id": {"value": agent_id},
            "update_oversubscribed_resources": False,
            "operations": {"operations": list(operations)},
            "resource_version_uuid": {"value": resource_version},
            "resource_providers": {},
        }
        self._send("UpdateSlaveMessage", document)

    def operation_status(self, send: SendOperationStatus, agent_id: AgentId) -> None:
        """Send the status of an operation."""
        document: Document = {
            "slave_id": {"value": agent_id},
            "status": send.status,
            "latest_status": send.status,
            "operation_uuid": {"value": send.operation_uuid},
        }
        if send.framework is not None:
            document["framework_id"] = {"value": send.framework}
        self._send("UpdateOperationStatusMessage", document)

    def pong(self, to: Pid) -> None:
        """Answer a ping: to the very process that sent it."""
        self._endpoint.send(PROCESS_ID, to, f"{_PREFIX}PongSlaveMessage", b"")

    def _introduce(
        self, name: str, document: Document, resource_version: str, resources: Sequence[ResourceDocument]
    ) -> None:
        if self.master is None:
            return
        document["version"] = MESOS_VERSION
        document["checkpointed_resources"] = list(resources)
        document["agent_capabilities"] = [{"type": capability} for capability in CAPABILITIES]
        document["resource_version_uuid"] = {"value": resource_version}
        self.meet()
        self._send(name, document)

    def _send(self, name: str, document: Mapping[str, Any], to: Pid | None = None) -> None:
        """Send a message to the master, or `to` another."""
        to = to or self.master
        if to is not None:
            full_name = _PREFIX + name
            self._endpoint.send(PROCESS_ID, to, full_name, encode_from_v1(full_name, document))

    # --- in -----------------------------------------------------------------------------------------------------

    def _on_exited(self, pid: Pid) -> None:
        if pid == self.master:
            self._deliver(LinkBroke())

    def _on_message(self, message: Message) -> None:
        name = message.name.removeprefix(_PREFIX)
        if name not in _READERS:
            if self.executors is not None and self.executors.take(message):
                return
            log.info("ignoring %s from %s: this agent does not know it", message.name, message.sender)
            return
        if name not in _FROM_ANYONE and message.sender != self.master:
            log.warning("ignoring %s from %s, which is not our master", name, message.sender)
            return
        if message.sender == self.master and self._overtaking.is_late(message):
            # Of a master that was killed: the one at its address now knows nothing of what it launched last.
            log.warning("ignoring %s from %s: a later one has come over a newer connection", name, message.sender)
            return
        try:
            document = decode_to_v1(message.name, message.body)
            if name == "PingSlaveMessage":
                connected, ours = bool(document["connected"]), self._is_of_master(message.sender)
                if not connected and not ours:
                    log.warning("%s, which is not our master, takes this agent for disconnected", message.sender)
                self._deliver(Ping(message.sender, connected, ours))
            elif name == "FrameworkToExecutorMessage":
                pid = None if message.sender == self.master else str(message.sender)
                self._deliver(ev.FrameworkMessage(_executor_of(document), document["data"], pid))
            else:
                for incoming in _READERS[name](document):
                    self._deliver(incoming)
        except ProtocolError as error:
            log.warning("ignoring a message from %s: %s", message.sender, error)

    def _is_of_master(self, sender: Pid) -> bool:
        """Return whether a process is the master's: its observers have pids of their own at the master's address."""
        return self.master is not None and sender.address == self.master.address


def _slave_info(info: Document) -> Document:
    """Return the SlaveInfo; `checkpoint`, which v1 no longer has, is true of every agent since Mesos 0.22."""
    return {**info, "checkpoint": True}


def _welcome(document: Document) -> list[Incoming]:
    timeout_s = (document.get("connection") or {}).get("total_ping_timeout_seconds")
    reconcile = tuple(
        ev.Reconcile(
            TaskKey(message["framework_id"]["value"], status["task_id"]["value"]),
            partition_aware=_partition_aware(message.get("framework") or {}),
        )
        for message in document.get("reconciliations", ())
        for status in message.get("statuses", ())
    )
    return [Welcome(document["slave_id"]["value"], timeout_s, reconcile)]


def _partition_aware(framework: Document) -> bool:
    return any(c.get("type") == "PARTITION_AWARE" for c in framework.get("capabilities", ()))


def _run_task(document: Document) -> list[Incoming]:
    return [_run(document, [document["task"]])]


def _run_group(document: Document) -> list[Incoming]:
    tasks: list[TaskInfo] = document["task_group"].get("tasks", [])
    with_executor: list[TaskInfo] = [{**task, "executor": task.get("executor", document["executor"])} for task in tasks]
    return [_run(document, with_executor, group=True)]


def _run(document: Document, tasks: list[TaskInfo], *, group: bool = False) -> ev.RunTask:
    if "id" not in document["framework"]:
        raise ProtocolError("a task of a framework without an id")
    for task in tasks:
        if not group and ("command" in task) == ("executor" in task):
            raise ProtocolError(f"task {task['task_id']['value']} has to have either a command or an executor")
    return ev.RunTask(
        framework=document["framework"],
        tasks=tuple(tasks),
        resource_version=_default_version(document.get("resource_version_uuids", ())),
        launch_executor=bool(document.get("launch_executor", True)),
        group=group,
        pid=_driver_of(document),
    )


def _default_version(versions: Iterable[Document]) -> str | None:
    """Return the version of the agent's own resources: the entry that names no resource provider."""
    listed = list(versions)
    version = next((str(v["uuid"]["value"]) for v in listed if "resource_provider_id" not in v), None)
    if listed and version is None:
        raise ProtocolError("a task for some version of resource providers' resources, and none of the agent's own")
    return version


def _kill(document: Document) -> list[Incoming]:
    return [ev.KillTask(_key(document), grace_s(document.get("kill_policy")))]


def _acknowledged(document: Document) -> list[Incoming]:
    return [ev.Acknowledged(_key(document), uuid_in(document["uuid"], "an acknowledged status update"))]


def _shutdown_framework(document: Document) -> list[Incoming]:
    return [ev.ShutdownFramework(document["framework_id"]["value"])]


def _executor_of(document: Document) -> ExecutorKey:
    return ExecutorKey(document["framework_id"]["value"], document["executor_id"]["value"])


def _shutdown_executor(document: Document) -> list[Incoming]:
    named = "framework_id" in document and "executor_id" in document
    return [ev.ShutdownExecutor(_executor_of(document))] if named else []


def _update_framework(document: Document) -> list[Incoming]:
    info = document.get("framework_info")
    known = None if info is None or "id" not in info else info
    return [ev.UpdateFramework(document["framework_id"]["value"], known, _driver_of(document))]


def _driver_of(document: Document) -> str | None:
    """Return where the framework's scheduler driver is; one over HTTP has the pid of nobody, `@0.0.0.0:0`."""
    pid = str(document.get("pid", ""))
    return pid if pid and not pid.startswith("@") else None


def _shutdown(document: Document) -> list[Incoming]:
    return [ev.ShutdownAgent(document.get("message", "the master said so"))]


def _drain(document: Document) -> list[Incoming]:
    config = document["config"]
    return [ev.Drain(grace_s({"grace_period": config.get("max_grace_period")}), bool(config.get("mark_gone")))]


def _keep(document: Document) -> list[Incoming]:
    return [KeepResources(tuple(document.get("resources", ())))]


def _apply_operation(document: Document) -> list[Incoming]:
    framework = (document.get("framework_id") or {}).get("value")
    uuid = uuid_in(document["operation_uuid"]["value"], "an operation")
    return [ApplyOperation(uuid, document["operation_info"], framework)]


def _operation_acknowledged(document: Document) -> list[Incoming]:
    status = uuid_in(document["status_uuid"]["value"], "an operation's acknowledged status")
    return [OperationAcknowledged(status, uuid_in(document["operation_uuid"]["value"], "an operation"))]


def _reconcile_operations(document: Document) -> list[Incoming]:
    asked = (o["operation_uuid"]["value"] for o in document.get("operations", ()) if "operation_uuid" in o)
    return [ReconcileOperations(tuple(asked))]


def _key(document: Document) -> TaskKey:
    return TaskKey(document["framework_id"]["value"], document["task_id"]["value"])


_READERS: Mapping[str, Callable[[Document], Sequence[Incoming]]] = {
    "PingSlaveMessage": lambda document: [],
    "SlaveRegisteredMessage": _welcome,
    "SlaveReregisteredMessage": _welcome,
    "RunTaskMessage": _run_task,
    "RunTaskGroupMessage": _run_group,
    "KillTaskMessage": _kill,
    "StatusUpdateAcknowledgementMessage": _acknowledged,
    "ShutdownFrameworkMessage": _shutdown_framework,
    "ShutdownExecutorMessage": _shutdown_executor,
    "FrameworkToExecutorMessage": lambda document: [],
    "UpdateFrameworkMessage": _update_framework,
    "ShutdownMessage": _shutdown,
    "DrainSlaveMessage": _drain,
    "CheckpointResourcesMessage": _keep,
    "ApplyOperationMessage": _apply_operation,
    "AcknowledgeOperationStatusMessage": _operation_acknowledged,
    "ReconcileOperationsMessage": _reconcile_operations,
}
# Pings are answered whoever sends them, as in Mesos, but count only from the master. Scheduler drivers write to their
# executors themselves: that the sender is the framework's is seen to where it is known.
_FROM_ANYONE = frozenset({"PingSlaveMessage", "FrameworkToExecutorMessage"})
