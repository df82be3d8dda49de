"""Whether an operation on an agent's resources may be done: Mesos' checks in Mesos' order; the first failure counts.

Source: Mesos src/master/validation.cpp, namespace operation; src/master/master.cpp (_accept). That the resources are
there is not looked at here: applying the operation shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.validation.operation_asked import Asked, Documents, incapable, invalid, principal_of
from mesos_gpu.master.validation.volume_validation import create_problem, destroy_problem, grow_problem, shrink_problem
from mesos_gpu.mesos.ids import id_problem
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources


def operation_problem(asked: Asked) -> str | None:
    """Return why an operation is refused, in Mesos' words; None when it may be tried."""
    check = _CHECKS.get(str(asked.operation.get("type")))
    if check is None:
        return f"{asked.operation.get('type', 'UNKNOWN')} is not supported by this master"
    problem = _feedback(asked)
    if problem is None and (problem := check(asked)) is not None and asked.framework is not None:
        return f"{problem}; on agent {named(asked.agent)}"
    return problem


def named(agent: Agent) -> str:
    """Return an agent as Mesos names it in such words."""
    return f"{agent.id} at {agent.pid} ({agent.hostname})"


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


def _reserve(asked: Asked) -> str | None:
    documents = asked.body.get("resources", [])
    problem = invalid(documents) or _source(documents, asked.body.get("source", []))
    if problem is not None:
        return problem
    for resource in map(Resource.from_json, documents):
        if not resource.dynamic:
            return f"Resource {resource} is not dynamically reserved"
        problem = incapable(asked, resource, "reserved")
        problem = problem or _reserver(asked, resource.reservations[-1].principal) or _role(asked, resource)
        if problem is not None:
            return problem
        if resource.persistence_id is not None:
            return f"A persistent volume {resource} must already be reserved"
    return None


def _source(documents: Documents, source: Documents) -> str | None:
    """Return why a reservation cannot be made of another one in one step (RESERVE with a `source`)."""
    if not source:
        return None
    problem = invalid(source, "source")
    if problem is not None:
        return problem
    for kind, given in (("source", source), ("resources", documents)):
        if not given:
            return f"Invalid {kind}: Resource cannot be empty"
        resources = Resources.from_json(given)
        if len({resource.reservations for resource in resources}) > 1:
            return f"Invalid {kind}: Mixed reservations are not supported{resources}"
    before, after = (_unreserved(given) for given in (source, documents))
    if before != after:
        return f"Source and target resources should refer to identical resource quantities: {before} vs. {after}"
    return None


def _unreserved(documents: Documents) -> Resources:
    return Resources(replace(Resource.from_json(document), reservations=()) for document in documents)


def _role(asked: Asked, resource: Resource) -> str | None:
    allocated = resource.allocation_role
    if asked.framework is None:
        if allocated is None:
            return None
        return (
            "A reserve operation was attempted with an allocated resource, but the operator API only allows "
            "reservations to be made to unallocated resources"
        )
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


def _reserver(asked: Asked, given: str | None) -> str | None:
    principal = principal_of(asked)
    if principal is None or given == principal:
        return None
    if given is None:
        return (
            f"A reserve operation was attempted by principal '{principal}', but there is a reserved resource in the "
            "request with no principal set"
        )
    return (
        f"A reserve operation was attempted by authenticated principal '{principal}', which does not match a reserved "
        f"resource in the request with principal '{given}'"
    )


def _unreserve(asked: Asked) -> str | None:
    documents = asked.body.get("resources", [])
    problem = invalid(documents)
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
        problem = incapable(asked, resource, "unreserved")
        if problem is not None:
            return problem
    return None


def _create_disk(asked: Asked) -> str | None:
    return "'source' is not managed by a resource provider"


_CHECKS: Mapping[str, Callable[[Asked], str | None]] = {
    "RESERVE": _reserve,
    "UNRESERVE": _unreserve,
    "CREATE": create_problem,
    "DESTROY": destroy_problem,
    "GROW_VOLUME": grow_problem,
    "SHRINK_VOLUME": shrink_problem,
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
