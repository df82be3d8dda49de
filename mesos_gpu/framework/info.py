"""The FrameworkInfo of a framework that takes GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import FrameworkId, Role, role_problem

Document = dict[str, Any]

GPU_RESOURCES = "GPU_RESOURCES"
"""Without this capability a master shows a framework no agent that has GPUs (mesos.proto, FrameworkInfo.Capability)."""
CAPABILITIES = frozenset(
    {
        GPU_RESOURCES,
        "MULTI_ROLE",
        "PARTITION_AWARE",
        "REGION_AWARE",
        "RESERVATION_REFINEMENT",
        "REVOCABLE_RESOURCES",
        "SHARED_RESOURCES",
        "TASK_KILLING_STATE",
    }
)
LONGEST_FAILOVER_S = (2**63 - 1) / 1e9
"""What a Duration of Mesos can hold."""


def framework_info(
    name: str,
    *,
    user: str = "root",
    roles: str | Sequence[str] = (),
    capabilities: Iterable[str] = (),
    failover_timeout_s: float = 100.0,
    checkpoint: bool = True,
    framework_id: str | None = None,
    principal: str | None = None,
    webui_url: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> FrameworkInfo:
    """Return the FrameworkInfo to give to a scheduler driver, with the capability GPU_RESOURCES.

    `user` runs the tasks that name none. With `roles`, one or several, it has MULTI_ROLE too, and is offered what is
    reserved for them; without it is in the role `*`. `capabilities` are further ones. `failover_timeout_s`: how long
    tasks live on without the scheduler; `checkpoint`: whether they outlive their agent's restarts. `framework_id`: of
    the framework to go on as.

    Raises BadInput for a role, capability or time that a master would refuse.
    """
    named = [roles] if isinstance(roles, str) else list(roles)
    for role in named:
        problem = role_problem(role)
        if problem is not None:
            raise BadInput(f"roles: {problem}")
    if len(set(named)) != len(named):
        raise BadInput(f"roles: one is named twice in {', '.join(named)}")
    able = dict.fromkeys([GPU_RESOURCES, *(["MULTI_ROLE"] if named else []), *capabilities])
    for capability in able:
        if capability not in CAPABILITIES:
            raise BadInput(f"capabilities: Mesos knows no {capability}; it knows {', '.join(sorted(CAPABILITIES))}")
    if "MULTI_ROLE" in able and not named:
        raise BadInput(
            "capabilities: a framework with MULTI_ROLE and no roles is never offered anything; name its roles"
        )
    if not 0 <= failover_timeout_s <= LONGEST_FAILOVER_S:
        raise BadInput(f"failover_timeout_s: {failover_timeout_s:g} is not between 0 and {LONGEST_FAILOVER_S:g}")
    info: FrameworkInfo = {
        "name": name,
        "user": user,
        "checkpoint": checkpoint,
        "failover_timeout": float(failover_timeout_s),
        "capabilities": [{"type": capability} for capability in able],
    }
    if named:
        info["roles"] = [Role(role) for role in named]
    if framework_id is not None:
        info["id"] = {"value": FrameworkId(framework_id)}
    if principal is not None:
        info["principal"] = principal
    if webui_url is not None:
        info["webui_url"] = webui_url
    if labels:
        info["labels"] = labels_document(labels)
    return info


def labels_document(labels: Mapping[str, str]) -> Document:
    """Return Mesos' Labels."""
    return {"labels": [{"key": key, "value": value} for key, value in labels.items()]}
