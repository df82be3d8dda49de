"""The documents of Mesos that cross rooms most, by their v1 messages: which fields there are, and which must be there.

A document is a dict all the same; these say what may be asked of one, and a test holds them to the field tables of
Mesos (messages.json). A field that holds a message without a class here is `Document`. What must be there stands in a
class of its own, above what may: Python 3.10 has no NotRequired, and the default executor has no typing_extensions.
`ResourceDocument` stands in resource.py.
"""

from __future__ import annotations

from typing import TypedDict

from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId, OfferId, Role, TaskId
from mesos_gpu.mesos.resource import Document, ResourceDocument


class FrameworkIdDocument(TypedDict):
    """A v1 FrameworkID."""

    value: FrameworkId


class AgentIdDocument(TypedDict):
    """A v1 AgentID."""

    value: AgentId


class TaskIdDocument(TypedDict):
    """A v1 TaskID."""

    value: TaskId


class ExecutorIdDocument(TypedDict):
    """A v1 ExecutorID."""

    value: ExecutorId


class OfferIdDocument(TypedDict):
    """A v1 OfferID."""

    value: OfferId


class _FrameworkInfo(TypedDict):
    user: str
    name: str


class FrameworkInfo(_FrameworkInfo, total=False):
    """A v1 FrameworkInfo."""

    id: FrameworkIdDocument
    failover_timeout: float
    checkpoint: bool
    role: Role
    hostname: str
    principal: str
    webui_url: str
    capabilities: list[Document]
    labels: Document
    roles: list[Role]
    offer_filters: dict[str, Document]


class _AgentInfo(TypedDict):
    hostname: str


class AgentInfo(_AgentInfo, total=False):
    """A v1 AgentInfo."""

    resources: list[ResourceDocument]
    attributes: list[Document]
    id: AgentIdDocument
    port: int
    domain: Document


class _ExecutorInfo(TypedDict):
    executor_id: ExecutorIdDocument


class ExecutorInfo(_ExecutorInfo, total=False):
    """A v1 ExecutorInfo."""

    type: str
    framework_id: FrameworkIdDocument
    command: Document
    container: Document
    resources: list[ResourceDocument]
    name: str
    source: str
    data: str
    discovery: Document
    shutdown_grace_period: Document
    labels: Document


class _TaskInfo(TypedDict):
    name: str
    task_id: TaskIdDocument
    agent_id: AgentIdDocument


class TaskInfo(_TaskInfo, total=False):
    """A v1 TaskInfo; `data` is base64."""

    resources: list[ResourceDocument]
    executor: ExecutorInfo
    command: Document
    container: Document
    data: str
    health_check: Document
    check: Document
    kill_policy: Document
    max_completion_time: Document
    labels: Document
    discovery: Document
    limits: Document


class _TaskStatus(TypedDict):
    task_id: TaskIdDocument
    state: str


class TaskStatus(_TaskStatus, total=False):
    """A v1 TaskStatus; `uuid` and `data` are base64, `timestamp` is seconds since the epoch."""

    message: str
    source: str
    reason: str
    data: str
    agent_id: AgentIdDocument
    executor_id: ExecutorIdDocument
    timestamp: float
    uuid: str
    healthy: bool
    labels: Document
    container_status: Document
    unreachable_time: Document
    check_status: Document
    limitation: Document


class _Offer(TypedDict):
    id: OfferIdDocument
    framework_id: FrameworkIdDocument
    agent_id: AgentIdDocument
    hostname: str


class OfferDocument(_Offer, total=False):
    """A v1 Offer."""

    url: Document
    domain: Document
    resources: list[ResourceDocument]
    attributes: list[Document]
    executor_ids: list[ExecutorIdDocument]
    unavailability: Document
    allocation_info: Document


def framework_id_of(info: FrameworkInfo) -> FrameworkId:
    """Return the id in a FrameworkInfo, empty where the framework has none yet."""
    return info["id"]["value"] if "id" in info else FrameworkId("")
