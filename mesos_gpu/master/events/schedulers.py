"""What schedulers do: their calls, and the end of their streams. Values only; documents are v1.

Source of the calls: Mesos include/mesos/v1/scheduler/scheduler.proto, message Call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.resource import Document


class Subscribe(Struct, frozen=True):
    """SUBSCRIBE over a new stream; `body` is a Call.Subscribe."""

    stream_id: str
    body: Document


class DriverSubscribes(Struct, frozen=True):
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


class DriverAborted(Struct, frozen=True):
    """DeactivateFrameworkMessage: a framework's driver lives and wants no offers."""

    framework_id: FrameworkId


class StreamClosed(Struct, frozen=True):
    """A scheduler's stream has ended, from whichever side; of a driver none does (see LinkBroken)."""

    stream_id: str


class Called(Struct, frozen=True):
    """A framework has made a call of this type, such as ACCEPT: it counts, whatever becomes of it."""

    framework_id: FrameworkId
    kind: str


class HeartbeatSent(Struct, frozen=True):
    """A stream has sent a heartbeat by itself."""

    stream_id: str


class FrameworkCall(Struct, frozen=True):
    """A call of a framework that is subscribed; `body` is what its document has under the name of its type."""

    framework_id: FrameworkId
    body: Document


class UpdateFramework(FrameworkCall, frozen=True):
    """UPDATE_FRAMEWORK: other roles, name, constraints. Refused with BadInput, or Forbidden."""


class Accept(FrameworkCall, frozen=True):
    """ACCEPT: operations on the resources of offers, launches among them."""


class Decline(FrameworkCall, frozen=True):
    """DECLINE: offers are not wanted."""


class AcceptInverseOffers(FrameworkCall, frozen=True):
    """ACCEPT_INVERSE_OFFERS: it will leave the machine."""


class DeclineInverseOffers(FrameworkCall, frozen=True):
    """DECLINE_INVERSE_OFFERS: it will not."""


class Revive(FrameworkCall, frozen=True):
    """REVIVE: offers are wanted again, those that were refused too."""


class Suppress(FrameworkCall, frozen=True):
    """SUPPRESS: no offers are wanted."""


class Kill(FrameworkCall, frozen=True):
    """KILL: a task is to end."""


class Acknowledge(FrameworkCall, frozen=True):
    """ACKNOWLEDGE: a task's status has arrived."""


class Reconcile(FrameworkCall, frozen=True):
    """RECONCILE: what state are these tasks in, or all of them?"""


class Shutdown(FrameworkCall, frozen=True):
    """SHUTDOWN: an executor is to end."""


class Message(FrameworkCall, frozen=True):
    """MESSAGE: bytes for an executor."""


class Teardown(FrameworkCall, frozen=True):
    """TEARDOWN: the framework is to be removed, with all that it runs."""


class Request(FrameworkCall, frozen=True):
    """REQUEST: resources are wanted, to which the stock allocator does not listen."""


class ReconcileOperations(FrameworkCall, frozen=True):
    """RECONCILE_OPERATIONS: what state are these operations in, or all of them?"""


class AcknowledgeOperationStatus(FrameworkCall, frozen=True):
    """ACKNOWLEDGE_OPERATION_STATUS: an operation's status has arrived."""


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
