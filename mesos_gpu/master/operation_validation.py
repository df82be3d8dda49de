"""Whether an operation on an agent's resources may be done: Mesos' checks in Mesos' order; the first failure counts.

Source: Mesos src/master/validation.cpp, namespaces resource and operation. That the resources are there is not looked
at here: applying the operation shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.master.model import Agent, Framework
from mesos_gpu.master.sharing import uses
from mesos_gpu.mesos.ids import id_problem, role_problem
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources, validate, validate_gpus

Documents = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Asked:
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


def operation_problem(asked: Asked) -> str | None:
    """Return why an operation is refused, in Mesos' words; None when it may be tried."""
    check = _CHECKS.get(str(asked.operation.get("type")))
    if check is None:
        return f"{asked.operation.get('type', 'UNKNOWN')} is not supported by this master"
    return _feedback(asked) or check(asked)


def disk_problem(documents: Documents) -> str | None:
    """Return what is wrong with the DiskInfos among resources (validateDiskInfo), or None."""
    for document in documents:
        problem = _disk_problem(document) if "disk" in document else None
        if problem is not None:
            return problem
    return None


def persistence_problem(resources: Sequence[Resource]) -> str | None:
    """Return which persistence id two volumes of one role share (validateUniquePersistenceID), or None."""
    met: set[tuple[str, str]] = set()
    for resource in resources:
        if resource.persistence_id is not None:
            key = (resource.role, resource.persistence_id)
            if key in met:
                return f"Persistence ID '{resource.persistence_id}' is not unique"
            met.add(key)
    return None


def _feedback(asked: Asked) -> str | None:
    if "id" not in asked.operation:
        return None
    for capability in ("RESOURCE_PROVIDER", "AGENT_OPERATION_FEEDBACK"):
        if capability not in asked.agent.capabilities:
            return (
                f"Operation requested feedback, but agent {asked.agent.id} does not have the required {capability} "
                "capability"
            )
    return id_problem(asked.operation["id"]["value"])


def _valid(documents: Documents) -> str | None:
    if any("provider_id" in document for document in documents):
        return "Invalid resources: this master has no resource providers"
    problem = validate(documents)
    if problem is None:
        problem = validate_gpus(Resources.from_json(documents)) or disk_problem(documents)
    if problem is None:
        roles = [r.role for d in documents for r in Resource.from_json(d).reservations]
        problem = next(filter(None, map(role_problem, roles)), None)
    return None if problem is None else f"Invalid resources: {problem}"


def _reserve(asked: Asked) -> str | None:
    documents = asked.body.get("resources", [])
    problem = _valid([*documents, *asked.body.get("source", [])])
    if problem is not None:
        return problem
    for resource in map(Resource.from_json, documents):
        if not resource.dynamic:
            return f"Resource {resource} is not dynamically reserved"
        problem = _role(asked, resource) or _agent_can(asked, resource, "reserved")
        problem = problem or _principal(asked, "reserve", resource.reservations[-1].principal)
        if problem is not None:
            return problem
        if resource.persistence_id is not None:
            return f"A persistent volume {resource} must already be reserved"
    return None


def _role(asked: Asked, resource: Resource) -> str | None:
    allocated = resource.allocation_role
    if asked.framework is None:
        return None if allocated is None else f"A reserve operation was attempted on the allocated resource {resource}"
    if allocated != resource.role:
        return (
            f"A reserve operation was attempted for a resource with role '{resource.role}', but the resource was "
            f"allocated to role '{allocated}'"
        )
    if allocated not in asked.framework.roles:
        roles = ", ".join(asked.framework.roles)
        return (
            f"A reserve operation was attempted for a resource allocated to role '{allocated}', but the framework only "
            f"has roles '{{ {roles} }}'"
        )
    return None


def _agent_can(asked: Asked, resource: Resource, done: str) -> str | None:
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


def _principal(asked: Asked, what: str, given: str | None) -> str | None:
    principal = asked.principal if asked.framework is None else asked.framework.info.get("principal")
    if principal is None or given == principal:
        return None
    if given is None:
        return (
            f"A {what} operation was attempted by principal '{principal}', but there is a resource in the request "
            "with no principal set"
        )
    return (
        f"A {what} operation was attempted by principal '{principal}', which does not match a resource in the request "
        f"with principal '{given}'"
    )


def _unreserve(asked: Asked) -> str | None:
    documents = asked.body.get("resources", [])
    problem = _valid(documents)
    if problem is not None:
        return problem
    for resource in map(Resource.from_json, documents):
        if not resource.dynamic:
            return f"Resource {resource} is not dynamically reserved"
        if resource.persistence_id is not None:
            return (
                f"A dynamically reserved persistent volume {resource} cannot be unreserved directly. Please destroy "
                "the persistent volume first then unreserve the resource"
            )
        problem = _agent_can(asked, resource, "unreserved")
        if problem is not None:
            return problem
    return None


def _create(asked: Asked) -> str | None:
    documents = asked.body.get("volumes", [])
    problem = _valid(documents) or _volumes_problem(documents)
    if problem is not None:
        return problem
    volumes = list(map(Resource.from_json, documents))
    kept = list(asked.agent.total.kept())
    problem = persistence_problem([*kept, *volumes])
    if problem is not None:
        return problem
    for volume in volumes:
        problem = _shared(asked, volume) or _agent_can(asked, volume, "created")
        problem = problem or _principal(asked, "create volume", volume.disk["persistence"].get("principal"))
        if problem is not None:
            return problem
    return None


def _shared(asked: Asked, volume: Resource) -> str | None:
    if not volume.shared:
        return None
    if asked.framework is not None and "SHARED_RESOURCES" not in asked.framework.capabilities:
        return (
            f"Create volume operation for '{volume}' has been attempted by framework '{asked.framework.id}' with no "
            "SHARED_RESOURCES capability"
        )
    return None


def _destroy(asked: Asked) -> str | None:
    documents = asked.body.get("volumes", [])
    problem = _valid(documents) or _volumes_problem(documents)
    if problem is not None:
        return problem
    volumes = Resources.from_json(documents).unallocated()
    if not asked.agent.total.kept().contains(volumes):
        return "Persistent volumes not found"
    if uses(asked.agent.used_total, volumes):
        return "Persistent volumes in use"
    return None


def _grow(asked: Asked) -> str | None:
    return _resize(asked, "GrowVolume", "Growing", "volume", "addition")


def _shrink(asked: Asked) -> str | None:
    return _resize(asked, "ShrinkVolume", "Shrinking", "volume")


def _resize(asked: Asked, name: str, doing: str, *fields: str) -> str | None:
    absent = next((field for field in fields if field not in asked.body), None)
    if absent is not None:
        return f"'{absent}' must be set in the '{name}' operation"
    documents = [asked.body[field] for field in fields]
    volume = documents[0]
    problem = _valid(documents) or _volumes_problem([volume])
    if problem is not None:
        return f"{problem} in the '{name}' operation"
    if "shared" in volume:
        return f"{doing} a shared persistent volume is not supported"
    if "RESIZE_VOLUME" not in asked.agent.capabilities:
        return f"Volume cannot be resized on agent {asked.agent.id} without RESIZE_VOLUME capability"
    if not asked.agent.total.contains(Resources.from_json([volume]).unallocated()):
        return "Persistent volumes not found"
    return None


def _create_disk(asked: Asked) -> str | None:
    return "'source' is not managed by a resource provider"


def _volumes_problem(documents: Documents) -> str | None:
    for resource in map(Resource.from_json, documents):
        if not resource.disk:
            return f"Not a persistent volume: Resource {resource} does not have DiskInfo"
        if resource.persistence_id is None:
            return f"Not a persistent volume: 'persistence' is not set in DiskInfo of {resource}"
    return None


def _disk_problem(document: Mapping[str, Any]) -> str | None:
    disk, resource = document["disk"], Resource.from_json(document)
    if "persistence" not in disk:
        if "volume" in disk:
            return "Non-persistent volume not supported"
        return None if "source" in disk else "DiskInfo is set but empty"
    if resource.name != "disk" or resource.type != "SCALAR":
        return f"Persistent volumes can only be created from 'disk', not from '{resource.name}'"
    if resource.revocable:
        return "Persistent volumes cannot be created from revocable resources"
    if not resource.reservations:
        return "Persistent volumes cannot be created from unreserved resources"
    if "volume" not in disk:
        return "Expecting 'volume' to be set for persistent volume"
    if "host_path" in disk["volume"]:
        return "Expecting 'host_path' to be unset for persistent volume"
    problem = id_problem(str(disk["persistence"]["id"]))
    return None if problem is None else f"Persistence ID is invalid: {problem}"


_CHECKS: Mapping[str, Callable[[Asked], str | None]] = {
    "RESERVE": _reserve,
    "UNRESERVE": _unreserve,
    "CREATE": _create,
    "DESTROY": _destroy,
    "GROW_VOLUME": _grow,
    "SHRINK_VOLUME": _shrink,
    "CREATE_DISK": _create_disk,
    "DESTROY_DISK": _create_disk,
}


def resource_lists(operation: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the fields of an operation's body that hold Resources, and whether they are lists."""
    yield from _FIELDS.get(str(operation.get("type")), ())


_FIELDS: Mapping[str, tuple[tuple[str, bool], ...]] = {
    "RESERVE": (("resources", True), ("source", True)),
    "UNRESERVE": (("resources", True),),
    "CREATE": (("volumes", True),),
    "DESTROY": (("volumes", True),),
    "GROW_VOLUME": (("volume", False), ("addition", False)),
    "SHRINK_VOLUME": (("volume", False),),
}
