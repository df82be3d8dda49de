"""What the master wants of reservations and volumes, and what the agent does about it: values only."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.resource import Document, ResourceDocument

# --- what happens ---------------------------------------------------------------------------------------------------


class ApplyOperation(Struct, frozen=True):
    """The master has applied this Offer.Operation (v1); `framework` is None when an operator asked for it."""

    uuid: str
    info: Document
    framework: FrameworkId | None = None


class KeepResources(Struct, frozen=True):
    """The whole list of reservations and volumes that the master made on this agent."""

    resources: tuple[ResourceDocument, ...]


class OperationAcknowledged(Struct, frozen=True):
    """Somebody has the status of an operation; both are base64 of 16 bytes."""

    status_uuid: str
    operation_uuid: str


class ReconcileOperations(Struct, frozen=True):
    """The master believes that these operations are here, and the agent did not list them."""

    uuids: tuple[str, ...]


OperationEvent: TypeAlias = ApplyOperation | KeepResources | OperationAcknowledged | ReconcileOperations


# --- what is done about it, in the order of the list -----------------------------------------------------------------


class MakeVolume(Struct, frozen=True):
    """Make the empty folder of a persistent volume."""

    role: Role
    id: str


class DiscardVolume(Struct, frozen=True):
    """Remove the folder of a persistent volume with all that is in it."""

    role: Role
    id: str


class SaveHoldings(Struct, frozen=True):
    """Put resources and operations on disk, together."""

    resources: tuple[ResourceDocument, ...]
    operations: tuple[Document, ...]


class SendOperationStatus(Struct, frozen=True):
    """Tell the master the status of an operation."""

    operation_uuid: str
    status: Document
    framework: FrameworkId | None = None


class Disagree(Struct, frozen=True):
    """The master counts on something else than is here: register again, with the truth."""

    why: str


OperationAction: TypeAlias = MakeVolume | DiscardVolume | SaveHoldings | SendOperationStatus | Disagree
