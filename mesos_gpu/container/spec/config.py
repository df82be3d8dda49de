"""What a container is asked to be, and how it ended."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from mesos_gpu.container.spec.linux import USUAL, LinuxSettings
from mesos_gpu.container.spec.output import OutputLimits
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId, is_nested
from mesos_gpu.mesos.shares.gpu_shares import Share

CONTAINER_ID = re.compile(r"(?=.{1,240}\Z)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)*")
"""Ids become folder and cgroup names, so nothing that a path or a cgroup reads differently. Dots separate a nested
container from the one it lies in."""

HOSTNAME = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")

Ready: TypeAlias = Callable[[], Awaitable[None]]
"""What is waited for before anything of a container runs."""

SIGNALLED = 128
"""An init, and conmon, report a process that died of signal N as exit status 128 + N."""


OURS = ("/", "/dev", "/proc", "/sys")
"""Where no volume may be put, nor below /proc and /sys."""


class Volume(Struct, frozen=True):
    """A folder or file shown in the container. Relative paths, of either side, are in the sandbox.

    `owned`: it is to belong to whom the container runs as; not what is in it. `in_use`: but others have it, too, and
    so its owner stays.
    """

    source: str
    destination: str
    read_only: bool = False
    owned: bool = False
    in_use: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """A file with this content, shown in the container and nowhere else."""

    destination: str
    content: bytes = field(repr=False)


class ImageAsk(Struct, frozen=True):
    """The image that a container runs in.

    `command` is merged with the image's by `runtime_spec.merge`, and stands for the container's argv. `sandbox` is
    where the sandbox is seen in the container. Without `cached` its source is asked whether the name means another
    image by now. `user_wins`: the container's user is meant, not only the user of those that name none.
    """

    name: str
    command: Command
    sandbox: str = "/mnt/mesos/sandbox"
    cached: bool = True
    user_wins: bool = False


class ContainerConfig(Struct, frozen=True):
    """One container to launch.

    `sandbox` is an existing folder of the host, by its absolute path; it is the working directory and holds the files
    `stdout` and `stderr`. `environment` is whole: nothing is inherited from the agent. `user` is a name known to the
    host, None for the agent's own. `cpus_milli` are thousandths of a CPU. `labels` are the task's. In an image, `argv`
    does not count and `environment` goes over the image's.

    A nested container (`parent.child`) takes no GPUs: it has those of its outermost parent. With `shares_cgroup` it
    lives within its parent's limits, and its own numbers are only shown; without, they are enforced, and it can open
    no GPU. A `standalone` one is recovered whoever asked for it.

    `networks` are those it joins, as NetworkInfos with names; none: the host's, unless it is nested, when it has those
    of its outermost parent. `hostname` is its own, by default its id where it joins networks.

    With a `terminal`, of `window` (rows, columns), it reads from there and says everything there; `stdout` has it too.
    With a `share` it can open cards that others open, too, and has no GPU of its own.
    `output` limits what is kept of what it says.
    `device_units` are what it asks of device plugins, by resource, `cdi_devices` the CDI devices that it asks for by
    name; `device_plan` is what came of both. Nested containers have that of their outermost one.
    With `host_users` it has no user namespace, where others of its agent have one.
    """

    container_id: ContainerId
    sandbox: Path
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    user: str | None
    cpus_milli: int
    mem_bytes: int
    gpus: int
    image: ImageAsk | None = None
    volumes: tuple[Volume, ...] = ()
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    shares_cgroup: bool = True
    standalone: bool = False
    linux: LinuxSettings = USUAL
    disk_bytes: int = 0
    secrets: tuple[Secret, ...] = ()
    terminal: bool = False
    window: tuple[int, int] | None = None
    networks: tuple[Mapping[str, Any], ...] = ()
    hostname: str | None = None
    share: Share | None = None
    output: OutputLimits | None = None
    device_units: Mapping[str, int] = msgspec.field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    device_plan: LaunchPlan | None = None
    host_users: bool = False

    @property
    def sandbox_volumes(self) -> tuple[Volume, ...]:
        """Return its persistent volumes in its sandbox: those are parts of it for containers nested in it, too."""
        return tuple(v for v in self.volumes if v.owned and not v.destination.startswith("/"))


class Size(Struct, frozen=True):
    """What a running container may use, in the units of its config.

    `cpus_limit_milli` and `mem_limit_bytes` as in LinuxSettings; `disk_bytes` 0: its sandbox has no quota.
    """

    cpus_milli: int
    mem_bytes: int
    gpus: int = 0
    disk_bytes: int = 0
    cpus_limit_milli: int | None = None
    mem_limit_bytes: int | None = None


class SessionConfig(Struct, frozen=True):
    """A command to run inside a running container: Mesos' container class DEBUG.

    It enters the namespaces of its parent, with the parent's environment under its own `environment`, its user unless
    `user` is another of the host's, and no more rights. With a `terminal` it has one of `window` (rows, columns).
    """

    container_id: ContainerId
    command: Command
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    user: str | None = None
    terminal: bool = False
    window: tuple[int, int] | None = None


class Termination(Struct, frozen=True):
    """How a container ended. `exit_code` and `signal` both None: nobody saw it end, so its result is unknown.

    `oom` says that the kernel killed in it for want of memory and that it did not end well; `mem_limit_bytes` and
    `mem_max_bytes` then say what it had and what it used at most. `disk_limit_bytes`: it was ended for using more of
    the disk than that. `message` is fit for a task status.
    """

    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    mem_limit_bytes: int | None = None
    mem_max_bytes: int | None = None
    message: str | None = None
    disk_limit_bytes: int | None = None


def check_id(container_id: ContainerId) -> None:
    """Raise BadInput for what cannot be the id of a container."""
    if not CONTAINER_ID.fullmatch(container_id):
        raise BadInput(
            f"container {container_id!r}: an id has letters, digits, '_' and '-' only, 240 characters at most, and "
            "starts with a letter or digit; dots lead from a container to one nested in it"
        )


def check_config(config: ContainerConfig) -> None:
    """Raise BadInput when `config` cannot be a container; touches nothing."""
    name = f"container {config.container_id!r}"
    check_id(config.container_id)
    if config.image is None and not config.argv:
        raise BadInput(f"{name}: no command")
    if not config.sandbox.is_absolute():
        raise BadInput(f"{name}: the sandbox {str(config.sandbox)!r} is not an absolute path")
    if min(config.cpus_milli, config.mem_bytes, config.gpus) < 0:
        raise BadInput(f"{name}: negative resources")
    if is_nested(config.container_id) and config.gpus:
        raise BadInput(f"{name}: a nested container has the GPUs of its outermost parent; ask for them there")
    if is_nested(config.container_id) and (config.networks or config.hostname is not None):
        raise BadInput("Currently, we don't support different network namespaces for parent and nested containers.")
    if config.hostname is not None and not HOSTNAME.fullmatch(config.hostname):
        raise BadInput(f"{name}: {config.hostname!r} cannot be the name of a host")
    command = () if config.image is None else (config.image.command.value or "", *config.image.command.arguments)
    for text in (*config.argv, *command, *config.environment, *config.environment.values()):
        if "\0" in text:
            raise BadInput(f"{name}: a NUL character in {text!r}")
    for variable in config.environment:
        if not variable or "=" in variable:
            raise BadInput(f"{name}: {variable!r} cannot be the name of an environment variable")
    for volume in (*config.volumes, *(Volume("/", secret.destination) for secret in config.secrets)):
        problem = _volume_problem(volume)
        if problem is not None:
            raise BadInput(f"{name}: a volume from {volume.source!r} to {volume.destination!r}: {problem}")


def one_slash(path: str) -> str:
    """Return a path that begins with one slash where it began with several: `//proc` is not `/proc` to pathlib."""
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def is_ours(destination: str) -> bool:
    """Return whether a place in a container is its own, so that no volume may be put there."""
    path = PurePosixPath(one_slash(destination))
    return str(path) in OURS or any(path.is_relative_to(ours) for ours in ("/proc", "/sys"))


def covers_host(config: ContainerConfig) -> bool:
    """Return whether a container without an image has a volume over the host's own files, such as /etc.

    Programs of the host that run as root for everybody, as su does, would believe what a task put there.
    """
    outside = [one_slash(volume.destination) for volume in config.volumes if volume.destination.startswith("/")]
    return config.image is None and any(not PurePosixPath(path).is_relative_to(config.sandbox) for path in outside)


def _volume_problem(volume: Volume) -> str | None:
    source, destination = PurePosixPath(one_slash(volume.source)), PurePosixPath(one_slash(volume.destination))
    if not volume.source or not volume.destination:
        return "both paths are needed"
    if "\0" in volume.source + volume.destination or ".." in (*source.parts, *destination.parts):
        return "'..' and NUL are not allowed in paths"
    if not source.is_absolute() and not destination.is_absolute():
        return "one of the paths must be absolute: relative ones are in the sandbox"
    if not destination.is_absolute() and not destination.parts:
        return "the path in the container is the sandbox itself"
    if is_ours(volume.destination):
        return f"{destination} is the container's own"
    return None


def read_status(status: int) -> Termination:
    """Return what an exit status says that came through the container's init.

    A signal cannot be told from an exit with 128 + its number; we take it for the signal, which is what it nearly
    always is. Unknown (both None) for a status that no process has.
    """
    if not 0 <= status <= 255:
        return Termination(message=f"unreadable exit status {status}")
    number = status - SIGNALLED
    if number > 0 and number in {int(one) for one in signals.Signals}:
        return Termination(signal=number)
    return Termination(exit_code=status)
