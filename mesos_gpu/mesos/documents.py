"""The documents of Mesos that cross rooms most, by their v1 messages: which fields there are, and which must be there.

A document is a dict all the same; these say what may be asked of one, and a test holds them to the field tables of
Mesos (messages.json). A field that holds a message without a class here is `Document`.
"""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict

from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import Document


class FrameworkIdDocument(TypedDict):
    """A v1 FrameworkID."""

    value: FrameworkId


class AgentIdDocument(TypedDict):
    """A v1 AgentID."""

    value: AgentId


class FrameworkInfo(TypedDict):
    """A v1 FrameworkInfo."""

    user: str
    name: str
    id: NotRequired[FrameworkIdDocument]
    failover_timeout: NotRequired[float]
    checkpoint: NotRequired[bool]
    role: NotRequired[Role]
    hostname: NotRequired[str]
    principal: NotRequired[str]
    webui_url: NotRequired[str]
    capabilities: NotRequired[list[Document]]
    labels: NotRequired[Document]
    roles: NotRequired[list[Role]]
    offer_filters: NotRequired[dict[str, Document]]


class AgentInfo(TypedDict):
    """A v1 AgentInfo."""

    hostname: str
    resources: NotRequired[list[Document]]
    attributes: NotRequired[list[Document]]
    id: NotRequired[AgentIdDocument]
    port: NotRequired[int]
    domain: NotRequired[Document]


def framework_id_of(info: FrameworkInfo) -> FrameworkId:
    """Return the id in a FrameworkInfo, empty where the framework has none yet."""
    return info["id"]["value"] if "id" in info else FrameworkId("")
