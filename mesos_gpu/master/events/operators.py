"""What operators ask for. Values only; documents are v1.

Each is refused with BadInput, or Conflict, when it cannot be done, and then nothing has changed.
Source: Mesos include/mesos/v1/master/master.proto, message Call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Principal


class OperatorRequest:
    """What an operator asks for."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class UpdateWeights(OperatorRequest):
    """UPDATE_WEIGHTS: WeightInfos of some roles."""

    weight_infos: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class UpdateQuota(OperatorRequest):
    """UPDATE_QUOTA: guarantees and limits of some roles; `body` is a Call.UpdateQuota."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetQuota(OperatorRequest):
    """SET_QUOTA: a guarantee of one role that is its limit, too; `request` is a QuotaRequest."""

    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveQuota(OperatorRequest):
    """REMOVE_QUOTA of a role; `asked` stands in a refusal, to say how it was asked for."""

    role: Role
    asked: str = ""


@dataclass(frozen=True, slots=True)
class UpdateSchedule(OperatorRequest):
    """UPDATE_MAINTENANCE_SCHEDULE: the whole new schedule."""

    schedule: Document


@dataclass(frozen=True, slots=True)
class StartMaintenance(OperatorRequest):
    """START_MAINTENANCE of machines, by their MachineIDs."""

    machine_ids: Sequence[Document]


@dataclass(frozen=True, slots=True)
class StopMaintenance(OperatorRequest):
    """STOP_MAINTENANCE of machines, by their MachineIDs."""

    machine_ids: Sequence[Document]


@dataclass(frozen=True, slots=True)
class DeactivateAgent(OperatorRequest):
    """DEACTIVATE_AGENT: it is not to be offered."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class DrainAgent(OperatorRequest):
    """DRAIN_AGENT: it is to end its tasks; `body` is a Call.DrainAgent, which says how long that may take."""

    agent_id: AgentId
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReactivateAgent(OperatorRequest):
    """REACTIVATE_AGENT: it may be offered again."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class MarkAgentGone(OperatorRequest):
    """MARK_AGENT_GONE: it can never come back."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class RemoveFramework(OperatorRequest):
    """TEARDOWN of a framework by somebody else."""

    framework_id: FrameworkId


@dataclass(frozen=True, slots=True)
class Operate(OperatorRequest):
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
