"""What the master wants of reservations and volumes, and what the agent does about it: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.resource import Document, ResourceDocument

# --- what happens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApplyOperation:
    """The master has applied this Offer.Operation (v1); `framework` is None when an operator asked for it."""

    uuid: str
    info: Document
    framework: FrameworkId | None = None


@dataclass(frozen=True, slots=True)
class KeepResources:
    """The whole list of reservations and volumes that the master made on this agent."""

    resources: tuple[ResourceDocument, ...]


@dataclass(frozen=True, slots=True)
class OperationAcknowledged:
    """Somebody has the status of an operation; both are base64 of 16 bytes."""

    status_uuid: str
    operation_uuid: str


@dataclass(frozen=True, slots=True)
class ReconcileOperations:
    """The master believes that these operations are here, and the agent did not list them."""

    uuids: tuple[str, ...]


OperationEvent: TypeAlias = ApplyOperation | KeepResources | OperationAcknowledged | ReconcileOperations


# --- what is done about it, in the order of the list -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeVolume:
    """Make the empty folder of a persistent volume."""

    role: Role
    id: str


@dataclass(frozen=True, slots=True)
class DiscardVolume:
    """Remove the folder of a persistent volume with all that is in it."""

    role: Role
    id: str


@dataclass(frozen=True, slots=True)
class SaveHoldings:
    """Put resources and operations on disk, together."""

    resources: tuple[ResourceDocument, ...]
    operations: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class SendOperationStatus:
    """Tell the master the status of an operation."""

    operation_uuid: str
    status: Document
    framework: FrameworkId | None = None


@dataclass(frozen=True, slots=True)
class Disagree:
    """The master counts on something else than is here: register again, with the truth."""

    why: str


OperationAction: TypeAlias = MakeVolume | DiscardVolume | SaveHoldings | SendOperationStatus | Disagree
