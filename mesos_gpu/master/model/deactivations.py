"""What operators want of agents, as the registry keeps it: out of use, drained, gone for good. Values to values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.master.model.model import Drain
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document


def to_registry(deactivated: Mapping[AgentId, Drain | None], gone: Mapping[AgentId, float]) -> Document:
    """Return the parts of the registry's document; what nobody wants is not there."""
    drains = {
        agent_id: None if drain is None else {"config": drain.config, "since_s": drain.started_s, "done": drain.done}
        for agent_id, drain in deactivated.items()
    }
    return {**({"deactivated": drains} if drains else {}), **({"gone": dict(gone)} if gone else {})}


def from_registry(document: Mapping[str, Any]) -> tuple[dict[AgentId, Drain | None], dict[AgentId, float]]:
    """Return the agents out of use, with their drains, and when others were marked gone, by id."""
    deactivated = {
        agent_id: None if drain is None else Drain(drain["config"], drain["since_s"], drain["done"])
        for agent_id, drain in document.get("deactivated", {}).items()
    }
    return deactivated, dict(document.get("gone", {}))
