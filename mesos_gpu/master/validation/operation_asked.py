"""What the checks of all operations on resources share: what is asked of whom, and whether resources are such at all.

Source: Mesos src/master/validation.cpp, namespace resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.mesos.ids import id_problem
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources, validate, validate_gpus

Documents: TypeAlias = Sequence[Mapping[str, Any]]


class Asked(Struct, frozen=True):
    """An operation that a framework asks for, or (None) an operator; its resources are in the refined format."""

    operation: Document
    agent: Agent
    framework: Framework | None = None
    principal: str | None = None
    """Who the operator is, None when nobody asked; a framework's is in its FrameworkInfo."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return what the operation is about."""
        body: Mapping[str, Any] = self.operation.get(str(self.operation.get("type")).lower(), {})
        return body


def invalid(documents: Documents, what: str = "resources") -> str | None:
    """Return what is wrong with resources as an operation says it, or None. None at all are no provider's, in Mesos."""
    problem = resource_problem(documents) if documents else "The resources have multiple resource providers: "
    return None if problem is None else f"Invalid {what}: {problem}"


def resource_problem(documents: Documents) -> str | None:
    """Return what is wrong with resources (resource::validate), or None."""
    if any("provider_id" in document for document in documents):
        return "this master has no resource providers"
    problem = validate(documents)
    if problem is None:
        problem = validate_gpus(Resources.from_json(documents))
    if problem is None and (of_disks := disk_problem(documents)) is not None:
        problem = f"Invalid DiskInfo: {of_disks}"
    return problem


def incapable(asked: Asked, resource: Resource, done: str) -> str | None:
    """Return why agent or framework cannot have a reservation like that of a resource; `done` is what is tried."""
    if "/" in resource.role and "HIERARCHICAL_ROLE" not in asked.agent.capabilities:
        return (
            f"Resource {resource} with reservation for hierarchical role '{resource.role}' cannot be {done} on an "
            "agent without HIERARCHICAL_ROLE capability"
        )
    if not resource.refined:
        return None
    if "RESERVATION_REFINEMENT" not in asked.agent.capabilities:
        return (
            f"Resource {resource} with reservation refinement cannot be {done} on an agent without "
            "RESERVATION_REFINEMENT capability"
        )
    if asked.framework is not None and "RESERVATION_REFINEMENT" not in asked.framework.capabilities:
        return (
            f"Resource {resource} with reservation refinement cannot be {done} by a framework without "
            "RESERVATION_REFINEMENT capability"
        )
    return None


def principal_of(asked: Asked) -> str | None:
    """Return who asks: the framework by its principal, or the operator; None when nobody is named."""
    return asked.principal if asked.framework is None else asked.framework.info.get("principal")


def disk_problem(documents: Documents) -> str | None:
    """Return what is wrong with the DiskInfos among resources (validateDiskInfo), or None."""
    for document in documents:
        problem = _disk_problem(document) if "disk" in document else None
        if problem is not None:
            return problem
    return None


def _disk_problem(document: Mapping[str, Any]) -> str | None:
    disk, resource = document["disk"], Resource.from_json(document)
    if "persistence" not in disk:
        if "volume" in disk:
            return "Non-persistent volume not supported"
        return None if "source" in disk else "DiskInfo is set but empty"
    if resource.revocable:
        return "Persistent volumes cannot be created from revocable resources"
    if not resource.reservations:
        return "Persistent volumes cannot be created from unreserved resources"
    if "volume" not in disk:
        return "Expecting 'volume' to be set for persistent volume"
    if "host_path" in disk["volume"]:
        return "Expecting 'host_path' to be unset for persistent volume"
    problem = id_problem(str(disk["persistence"]["id"]))
    return None if problem is None else f"Invalid persistence ID for persistent volume: {problem}"
