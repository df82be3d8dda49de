"""Every error this package raises on purpose; what a caller can do about it decides the base.

    MesosGpuError
    ├── BadInput            what the caller gave is wrong: change it and try again
    │   ├── BadFlag         a command line flag, or the environment variable of the same name
    │   ├── BadResources    resources text or JSON that Mesos would refuse
    │   └── InvalidApp      an app definition; carries every problem found, not only the first
    ├── NotFound            the named thing does not exist
    ├── Forbidden           who asks is known, and may not: somebody else must ask, or the access control lists change
    ├── Conflict            it cannot be done now, because of the state of things
    │   ├── NotEnoughGpus   more GPUs were asked for than are free
    │   ├── GpusTaken       GPUs that a holder outside Mesos asked for are somebody's; the message says whose
    │   ├── Locked          a running deployment holds the app; carries the ids of such deployments
    │   └── TooMany         a limit of the service is reached
    ├── ProtocolError       the peer sent what the protocol does not allow
    ├── Unavailable         a service, tool or permission that is needed is not there; says what to do
    │   ├── DeviceError     a GPU, its driver or NVML does not answer as it should
    │   ├── ContainerError  the OCI runtime, conmon or a cgroup refused
    │   │   └── CutOff      somebody killed it, or memory ran out, before it could say so or say otherwise
    │   ├── DamagedRecord   a file that this package wrote does not hold what it should; carries its path
    │   ├── ImageError      an image cannot be had: unknown, damaged, hostile, registry down, disk full, too slow
    │   └── TimeIsUp        what was waited for has not come within the time given
    └── Refused             a peer understood the request and said no; carries its status and words

Programming mistakes stay TypeError and ValueError and are not caught.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class MesosGpuError(Exception):
    """Base of all errors of this package; `str()` is one message fit for a person."""


class BadInput(MesosGpuError):
    """What the caller gave is wrong; nothing was done."""


class BadFlag(BadInput):
    """A flag or its environment variable is unknown or has an unusable value."""

    def __init__(self, flag: str, problem: str) -> None:
        super().__init__(f"--{flag}: {problem}")
        self.flag, self.problem = flag, problem


class BadResources(BadInput):
    """Resources that Mesos would refuse."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document.

    `path` is Marathon's: `/` for the whole document, slashes for keys, `(n)` for list items, as in
    `/constraints(0)`. `code` is the text Marathon's API gives (`error.min`, or a sentence); `message` says
    it to a person; `suggestion` is what to do, where we know. `key` is the key to point at when the path is `/`.
    """

    path: str
    code: str
    message: str
    suggestion: str | None = None
    key: str | None = None


class InvalidApp(BadInput):
    """An app definition that breaks rules; `problems` has all of them."""

    def __init__(self, problems: Sequence[Problem], *, stage: str = "Object is not valid") -> None:
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems))
        self.problems, self.stage = tuple(problems), stage


class NotFound(MesosGpuError):
    """The named thing does not exist. `named` says which for programs, where an API does: Metronome's."""

    def __init__(self, message: str, **named: str) -> None:
        super().__init__(message)
        self.named = named


class Forbidden(MesosGpuError):
    """Who asks may not have it, or do it; the message is Mesos' own, which says no more."""

    def __init__(self, message: str = "403 Forbidden.") -> None:
        super().__init__(message)


class Conflict(MesosGpuError):
    """It cannot be done in the present state; trying later may succeed."""


class NotEnoughGpus(Conflict):
    """More GPUs were asked for than are free, or more of what `of` names: a card that is shared."""

    def __init__(self, *, asked: int, free: int, of: str = "gpus") -> None:
        super().__init__(f"Requested {asked} {of} but only {free} available")
        self.asked, self.free = asked, free


class GpusTaken(Conflict):
    """GPUs cannot be lent: others hold them, or they are not fit. The message says who holds what."""

    def __init__(self, message: str, *, asked: int, free: int) -> None:
        super().__init__(message)
        self.asked, self.free = asked, free


class Locked(Conflict):
    """A running deployment holds the app; `deployments` has the ids of all that do."""

    def __init__(self, app_id: str, deployments: Sequence[str]) -> None:
        super().__init__(
            f"App {app_id} is locked by one or more deployments. Override with the option '?force=true'. "
            "View details at '/v2/deployments/<DEPLOYMENT_ID>'."
        )
        self.deployments = tuple(deployments)


class TooMany(Conflict):
    """A limit of the service is reached."""


class ProtocolError(MesosGpuError):
    """The peer sent what the protocol does not allow."""


class Unavailable(MesosGpuError):
    """Something outside this program is needed and not there; the message says what to do."""


class DeviceError(Unavailable):
    """A GPU, its driver or NVML does not answer as it should."""


class ContainerError(Unavailable):
    """The OCI runtime, its supervisor or a cgroup refused."""


class CutOff(ContainerError):
    """A container, or what was starting it, was killed from outside: nothing is known of whether it would have run."""


class DamagedRecord(Unavailable):
    """A file that this package wrote should contain `what` and does not; the message ends with `advice`."""

    def __init__(self, path: Path, problem: object, what: str, advice: str) -> None:
        super().__init__(f"{path} should contain {what}, but is damaged ({problem}): {advice}")
        self.path = path


class ImageError(Unavailable):
    """An image cannot be had; the message says why, and nothing of it is left half done."""


class TimeIsUp(Unavailable):
    """What was waited for has not come within the time given; it may still come."""


class Refused(MesosGpuError):
    """A peer understood the request and said no."""

    def __init__(self, message: str, *, status: int, body: str = "") -> None:
        super().__init__(message)
        self.status, self.body = status, body


def of_want(error: OSError) -> bool:
    """Tell whether a call failed for want of descriptors or memory: then nothing was seen, and nothing is gone."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
