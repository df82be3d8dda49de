"""What schedulers do: their calls, and the end of their streams. Values only; documents are v1.

Source of the calls: Mesos include/mesos/v1/scheduler/scheduler.proto, message Call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.resource import Document


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE over a new stream; `body` is a Call.Subscribe."""

    stream_id: str
    body: Document


@dataclass(frozen=True, slots=True)
class DriverSubscribes:
    """A driver at `pid` asks to be subscribed.

    `info` is a v1 FrameworkInfo, `principal` what the driver has authenticated as.
    """

    pid: str
    info: FrameworkInfo
    force: bool = False
    """Whether it takes the place of another driver: set by programs that were started with a framework's id."""
    suppressed: tuple[Role, ...] = ()
    offer_constraints: Document = field(default_factory=dict)
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class DriverAborted:
    """DeactivateFrameworkMessage: a framework's driver lives and wants no offers."""

    framework_id: FrameworkId


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A scheduler's stream has ended, from whichever side; of a driver none does (see LinkBroken)."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class Called:
    """A framework has made a call of this type, such as ACCEPT: it counts, whatever becomes of it."""

    framework_id: FrameworkId
    kind: str


@dataclass(frozen=True, slots=True)
class HeartbeatSent:
    """A stream has sent a heartbeat by itself."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class FrameworkCall:
    """A call of a framework that is subscribed; `body` is what its document has under the name of its type."""

    framework_id: FrameworkId
    body: Document


class UpdateFramework(FrameworkCall):
    """UPDATE_FRAMEWORK: other roles, name, constraints. Refused with BadInput, or Forbidden."""

    __slots__ = ()


class Accept(FrameworkCall):
    """ACCEPT: operations on the resources of offers, launches among them."""

    __slots__ = ()


class Decline(FrameworkCall):
    """DECLINE: offers are not wanted."""

    __slots__ = ()


class AcceptInverseOffers(FrameworkCall):
    """ACCEPT_INVERSE_OFFERS: it will leave the machine."""

    __slots__ = ()


class DeclineInverseOffers(FrameworkCall):
    """DECLINE_INVERSE_OFFERS: it will not."""

    __slots__ = ()


class Revive(FrameworkCall):
    """REVIVE: offers are wanted again, those that were refused too."""

    __slots__ = ()


class Suppress(FrameworkCall):
    """SUPPRESS: no offers are wanted."""

    __slots__ = ()


class Kill(FrameworkCall):
    """KILL: a task is to end."""

    __slots__ = ()


class Acknowledge(FrameworkCall):
    """ACKNOWLEDGE: a task's status has arrived."""

    __slots__ = ()


class Reconcile(FrameworkCall):
    """RECONCILE: what state are these tasks in, or all of them?"""

    __slots__ = ()


class Shutdown(FrameworkCall):
    """SHUTDOWN: an executor is to end."""

    __slots__ = ()


class Message(FrameworkCall):
    """MESSAGE: bytes for an executor."""

    __slots__ = ()


class Teardown(FrameworkCall):
    """TEARDOWN: the framework is to be removed, with all that it runs."""

    __slots__ = ()


class Request(FrameworkCall):
    """REQUEST: resources are wanted, to which the stock allocator does not listen."""

    __slots__ = ()


class ReconcileOperations(FrameworkCall):
    """RECONCILE_OPERATIONS: what state are these operations in, or all of them?"""

    __slots__ = ()


class AcknowledgeOperationStatus(FrameworkCall):
    """ACKNOWLEDGE_OPERATION_STATUS: an operation's status has arrived."""

    __slots__ = ()


Call: TypeAlias = (
    UpdateFramework
    | Accept
    | Decline
    | AcceptInverseOffers
    | DeclineInverseOffers
    | Revive
    | Suppress
    | Kill
    | Acknowledge
    | Reconcile
    | Shutdown
    | Message
    | Teardown
    | Request
    | ReconcileOperations
    | AcknowledgeOperationStatus
)
"""A call of a framework that is subscribed."""
SchedulerEvent: TypeAlias = Subscribe | DriverSubscribes | DriverAborted | StreamClosed | Called | HeartbeatSent | Call

CALLS: Mapping[str, type[Call]] = {
    "UPDATE_FRAMEWORK": UpdateFramework,
    "ACCEPT": Accept,
    "DECLINE": Decline,
    "ACCEPT_INVERSE_OFFERS": AcceptInverseOffers,
    "DECLINE_INVERSE_OFFERS": DeclineInverseOffers,
    "REVIVE": Revive,
    "SUPPRESS": Suppress,
    "KILL": Kill,
    "ACKNOWLEDGE": Acknowledge,
    "RECONCILE": Reconcile,
    "SHUTDOWN": Shutdown,
    "MESSAGE": Message,
    "TEARDOWN": Teardown,
    "REQUEST": Request,
    "RECONCILE_OPERATIONS": ReconcileOperations,
    "ACKNOWLEDGE_OPERATION_STATUS": AcknowledgeOperationStatus,
}
"""By the type that a call's document says. SUBSCRIBE is none of a subscribed framework."""
