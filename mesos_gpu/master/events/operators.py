"""What operators ask for. Values only; documents are v1.

Each is refused with BadInput, or Conflict, when it cannot be done, and then nothing has changed.
Source: Mesos include/mesos/v1/master/master.proto, message Call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Principal


class OperatorRequest(Struct, frozen=True):
    """What an operator asks for."""


class UpdateWeights(OperatorRequest, frozen=True):
    """UPDATE_WEIGHTS: WeightInfos of some roles."""

    weight_infos: Sequence[Mapping[str, Any]]


class UpdateQuota(OperatorRequest, frozen=True):
    """UPDATE_QUOTA: guarantees and limits of some roles; `body` is a Call.UpdateQuota."""

    body: Mapping[str, Any]


class SetQuota(OperatorRequest, frozen=True):
    """SET_QUOTA: a guarantee of one role that is its limit, too; `request` is a QuotaRequest."""

    request: Mapping[str, Any]


class RemoveQuota(OperatorRequest, frozen=True):
    """REMOVE_QUOTA of a role; `asked` stands in a refusal, to say how it was asked for."""

    role: Role
    asked: str = ""


class UpdateSchedule(OperatorRequest, frozen=True):
    """UPDATE_MAINTENANCE_SCHEDULE: the whole new schedule."""

    schedule: Document


class StartMaintenance(OperatorRequest, frozen=True):
    """START_MAINTENANCE of machines, by their MachineIDs."""

    machine_ids: Sequence[Document]


class StopMaintenance(OperatorRequest, frozen=True):
    """STOP_MAINTENANCE of machines, by their MachineIDs."""

    machine_ids: Sequence[Document]


class DeactivateAgent(OperatorRequest, frozen=True):
    """DEACTIVATE_AGENT: it is not to be offered."""

    agent_id: AgentId


class DrainAgent(OperatorRequest, frozen=True):
    """DRAIN_AGENT: it is to end its tasks; `body` is a Call.DrainAgent, which says how long that may take."""

    agent_id: AgentId
    body: Mapping[str, Any]


class ReactivateAgent(OperatorRequest, frozen=True):
    """REACTIVATE_AGENT: it may be offered again."""

    agent_id: AgentId


class MarkAgentGone(OperatorRequest, frozen=True):
    """MARK_AGENT_GONE: it can never come back."""

    agent_id: AgentId


class RemoveFramework(OperatorRequest, frozen=True):
    """TEARDOWN of a framework by somebody else."""

    framework_id: FrameworkId


class Operate(OperatorRequest, frozen=True):
    """An Offer.Operation on an agent's resources, for `principal`. Refused with Forbidden, too."""

    agent_id: AgentId
    operation: Document
    principal: Principal | None = None


OperatorEvent: TypeAlias = (
    UpdateWeights
    | UpdateQuota
    | SetQuota
    | RemoveQuota
    | UpdateSchedule
    | StartMaintenance
    | StopMaintenance
    | DeactivateAgent
    | DrainAgent
    | ReactivateAgent
    | MarkAgentGone
    | RemoveFramework
    | Operate
)
