"""Which GPUs are fit for use, and what an event does about it. Pure: a decision is a new `Health`.

What a condition means to the agent:

    HEALTHY    offered and given
    SUSPECT    as HEALTHY, while a re-test, which is due at once, decides: the driver could not say which GPU it is
    DRAINING   withdrawn from new containers; whoever holds it may finish
    UNHEALTHY  withdrawn, and its holder is told
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from msgspec import Struct, field

from mesos_gpu.gpu.device import Gpu, HealthEvent

WHOLE_GPU = 0xFFFFFFFF
"""What NVML gives as GPU instance and compute instance of an event that is the whole GPU's."""


class Severity(Enum):
    """What an XID asks for."""

    IGNORE = "ignore"
    """An application's fault: the GPU stays in use."""
    DRAIN = "drain"
    """Only the application that was hit is lost: let others finish, then test the GPU."""
    FATAL = "fatal"
    """The GPU cannot be trusted."""


_APPLICATION = "fault of an application; NVIDIA's k8s-device-plugin and DRA driver ignore it"
_DRAIN = "disables GPUs for days elsewhere although one application was hit: {}"
_FATAL = "NVIDIA's k8s-device-plugin takes the GPU out of use; {}"


class Xid(Struct, frozen=True):
    """What is known of one of NVIDIA's error numbers, and whose word for its severity this is."""

    severity: Severity
    meaning: str
    source: str


XIDS: Mapping[int, Xid] = {
    13: Xid(Severity.IGNORE, "graphics engine exception", _APPLICATION),
    31: Xid(Severity.IGNORE, "memory page fault", _APPLICATION),
    43: Xid(Severity.IGNORE, "GPU stopped processing", _APPLICATION),
    45: Xid(Severity.IGNORE, "preemptive cleanup after earlier errors", _APPLICATION),
    68: Xid(Severity.IGNORE, "video processor exception", _APPLICATION),
    109: Xid(Severity.IGNORE, "context switch timeout", _APPLICATION),
    63: Xid(Severity.DRAIN, "memory row remapping or page retirement recorded", "reset when idle (NVIDIA, XID errors)"),
    69: Xid(Severity.DRAIN, "graphics engine class error", _DRAIN.format("k8s-device-plugin#189")),
    94: Xid(Severity.DRAIN, "contained memory error", _DRAIN.format("gpu-operator#1065")),
    154: Xid(Severity.DRAIN, "recovery action changed", "the driver's recovery action, read by the test, decides"),
    48: Xid(Severity.FATAL, "double bit memory error", _FATAL.format("GKE's too, by default this one alone")),
    62: Xid(Severity.FATAL, "internal controller halt", _FATAL.format("NVIDIA, XID errors")),
    64: Xid(Severity.FATAL, "memory row remapping or page retirement failed", _FATAL.format("critical for GKE")),
    74: Xid(Severity.FATAL, "NVLink error", _FATAL.format("NVIDIA, XID errors")),
    79: Xid(Severity.FATAL, "GPU has fallen off the bus", _FATAL.format("critical for GKE")),
    95: Xid(Severity.FATAL, "uncontained memory error", _FATAL.format("NVIDIA, XID errors")),
    119: Xid(Severity.FATAL, "GSP timeout", _FATAL.format("critical for GKE")),
    120: Xid(Severity.FATAL, "GSP error", _FATAL.format("critical for GKE")),
    123: Xid(Severity.FATAL, "power controller failure", _FATAL.format("critical for GKE")),
    140: Xid(Severity.FATAL, "unrecovered memory error", _FATAL.format("critical for GKE")),
    143: Xid(Severity.FATAL, "GPU initialization failure", _FATAL.format("NVIDIA, XID errors")),
}
"""Sources: k8s-device-plugin at 1b826ac and dra-driver-nvidia-gpu at 9593204 (the ignored ones),
container-engine-accelerators at 992db81 (GKE), NVIDIA's list of XID errors (meanings)."""

_UNKNOWN = Xid(
    Severity.FATAL, "unknown error", "NVIDIA's k8s-device-plugin takes the GPU out of use for what it does not know"
)


def xid_of(number: int) -> Xid:
    """Return what is known of an XID; one that is not in XIDS is fatal."""
    return XIDS.get(number, _UNKNOWN)


class Condition(Enum):
    """How a GPU is; see this module's text."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


class Trigger(Enum):
    """What moves a GPU from one condition to another."""

    DOUBTED = "an event that names no GPU"
    HURT = "an XID to drain for"
    BROKEN = "a fatal XID, or a GPU that is lost"
    PASSED = "a re-test that it passed"
    FAILED = "a re-test that it failed"
    CLEARED = "an operator's word"


_C, _T = Condition, Trigger
TABLE: Mapping[tuple[Condition, Trigger], Condition] = {
    (_C.HEALTHY, _T.DOUBTED): _C.SUSPECT,
    (_C.HEALTHY, _T.HURT): _C.DRAINING,
    (_C.HEALTHY, _T.BROKEN): _C.UNHEALTHY,
    (_C.SUSPECT, _T.HURT): _C.DRAINING,
    (_C.SUSPECT, _T.BROKEN): _C.UNHEALTHY,
    (_C.SUSPECT, _T.PASSED): _C.HEALTHY,
    (_C.SUSPECT, _T.FAILED): _C.UNHEALTHY,
    (_C.SUSPECT, _T.CLEARED): _C.HEALTHY,
    (_C.DRAINING, _T.BROKEN): _C.UNHEALTHY,
    (_C.DRAINING, _T.PASSED): _C.HEALTHY,
    (_C.DRAINING, _T.CLEARED): _C.HEALTHY,
    (_C.UNHEALTHY, _T.PASSED): _C.HEALTHY,
    (_C.UNHEALTHY, _T.CLEARED): _C.HEALTHY,
}
"""Every change there is; what is not here changes nothing. That a re-test brings a GPU back from DRAINING and
UNHEALTHY is a matter of a flag: the agent tests those only where the flag asks for it."""

WITHDRAWN = frozenset({Condition.DRAINING, Condition.UNHEALTHY})


class Illness(Struct, frozen=True):
    """Why a GPU is not simply healthy, and since when (seconds of the caller's clock)."""

    condition: Condition
    reason: str
    since: float
    xid: int | None = None


class Change(Struct, frozen=True):
    """One GPU's way from a condition to another, with the reason for it."""

    gpu: Gpu
    before: Condition
    after: Condition
    reason: str
    xid: int | None = None


class Health(Struct, frozen=True):
    """How each GPU of an agent is. An event hits the GPUs that it names and no other."""

    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    ill: Mapping[str, Illness] = field(default_factory=dict)

    @classmethod
    def of(cls, gpus: Iterable[Gpu]) -> Health:
        """Return that all of `gpus` are healthy."""
        return cls({gpu.uuid: gpu for gpu in gpus})

    def condition(self, uuid: str) -> Condition:
        """Return how the GPU is; one that this agent does not have is healthy."""
        illness = self.ill.get(uuid)
        return Condition.HEALTHY if illness is None else illness.condition

    @property
    def withdrawn(self) -> frozenset[str]:
        """Return the uuids of the GPUs that must not be offered or given."""
        return frozenset(uuid for uuid, illness in self.ill.items() if illness.condition in WITHDRAWN)

    def to_retest(self, *, withdrawn_too: bool) -> tuple[Gpu, ...]:
        """Return the GPUs to test now: the suspect ones, and the withdrawn ones where the flag for it is set."""
        return tuple(
            self.gpus[uuid]
            for uuid, illness in sorted(self.ill.items())
            if withdrawn_too or illness.condition is Condition.SUSPECT
        )

    def on_event(self, event: HealthEvent, now: float) -> tuple[Health, tuple[Change, ...]]:
        """Take an event; `now` in seconds. An event of a GPU that this agent does not have changes nothing."""
        trigger = _trigger_of(event)
        if trigger is None:
            return self, ()
        uuids = self.gpus if event.uuid is None else (event.uuid,)
        return self._move(uuids, trigger, event.what, now, event.xid)

    def on_retest(self, uuid: str, why_not: str | None, now: float) -> tuple[Health, tuple[Change, ...]]:
        """Take the answer of a re-test: None is a pass, else why the GPU is not fit."""
        if why_not is None:
            return self._move((uuid,), Trigger.PASSED, "it passed a re-test", now)
        return self._move((uuid,), Trigger.FAILED, why_not, now)

    def on_cleared(self, uuid: str, now: float) -> tuple[Health, tuple[Change, ...]]:
        """Take an operator's word that the GPU is healthy."""
        return self._move((uuid,), Trigger.CLEARED, "an operator said so", now)

    def _move(
        self,
        uuids: Collection[str] | Mapping[str, Gpu],
        trigger: Trigger,
        reason: str,
        now: float,
        xid: int | None = None,
    ) -> tuple[Health, tuple[Change, ...]]:
        ill, changes = dict(self.ill), []
        for uuid in uuids:
            if uuid not in self.gpus:
                continue
            before = self.condition(uuid)
            after = TABLE.get((before, trigger), before)
            if after is before:
                continue
            changes.append(Change(self.gpus[uuid], before, after, reason, xid))
            if after is Condition.HEALTHY:
                del ill[uuid]
            else:
                ill[uuid] = Illness(after, reason, now, xid)
        return (Health(self.gpus, ill), tuple(changes)) if changes else (self, ())


def _trigger_of(event: HealthEvent) -> Trigger | None:
    """Return what an event does to the GPUs it is about; None when nothing."""
    severity = Severity.FATAL if event.xid is None else xid_of(event.xid).severity
    if severity is Severity.IGNORE:
        return None
    if event.uuid is None:
        return Trigger.DOUBTED
    return Trigger.HURT if severity is Severity.DRAIN else Trigger.BROKEN


def affected(
    gpus: Iterable[Gpu], board: str, gpu_instance: int = WHOLE_GPU, compute_instance: int = WHOLE_GPU
) -> tuple[Gpu, ...]:
    """Return which of `gpus` an event is about that happened on the GPU with uuid `board`, in these instances.

    An event of one MIG instance is that instance's alone; one of the whole GPU is every instance's of it.
    """
    return tuple(
        gpu
        for gpu in gpus
        if (gpu.uuid == board and gpu.mig is None)
        or (
            gpu.mig is not None
            and gpu.mig.parent_uuid == board
            and gpu_instance in (WHOLE_GPU, gpu.mig.gpu_instance)
            and compute_instance in (WHOLE_GPU, gpu.mig.compute_instance)
        )
    )


def describe(xid: int) -> str:
    """Return an XID as a person reads it: number and meaning."""
    return f"XID {xid} ({xid_of(xid).meaning})"
