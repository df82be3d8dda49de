"""How tasks answer health checks: from when until when after its begin one is sick stands in its environment."""

from __future__ import annotations

import asyncio
import math
from random import Random
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import ContainerError
from tests.sim.actors import LATER

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine
    from tests.sim.network import Listener

HEALTH = "SIM_HEALTH"
"""A task's variable: PROTOCOL:FROM:UNTIL, how it is asked, and between which seconds after its begin it is sick."""
READY = "SIM_READY"
"""A task's variable: so many seconds after its begin it is ready."""
SILENT = 0.3
"""How many of the sick do not answer at all. In earlier histories that is another one each time: what says that it is
sick, and is believed to be well, was soon ended for the answers that it owed."""
WELL, SICK = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"


def sickness(container: Container) -> tuple[float, float]:
    """Return from when until when of the world's time it is sick."""
    _, begins, ends = container.config.environment[HEALTH].split(":")
    return container.began_s + float(begins), container.began_s + float(ends)


def ready_after_s(container: Container) -> float:
    """Return after how many seconds it says that it is ready, if it is asked for that."""
    return float(container.config.environment.get(READY, "0"))


def is_sick(container: Container) -> bool:
    """Return whether a container that says how it is, is sick now."""
    begins_s, ends_s = sickness(container)
    return begins_s <= container.kernel.host.world.now_s < ends_s


def sick_within(container: Container, now_s: float, last_s: float, *, throughout: bool = False) -> bool:
    """Return whether it was sick at some time of the last so many seconds, or all the time."""
    begins_s, ends_s = sickness(container)
    if throughout:
        return begins_s <= now_s - last_s and now_s < ends_s
    return begins_s <= now_s and now_s - last_s < ends_s


def is_silent(container: Container) -> bool:
    """Return whether one that is sick does not answer now."""
    world = container.kernel.host.world
    if world.seed < LATER:
        return world.random.random() < SILENT
    return Random(f"silence of {container.task} at {world.seed}").random() < SILENT


def answered(container: Container) -> int:
    """Return the exit status of a command that asks how it is. Raises ContainerError when that takes too long."""
    if HEALTH not in container.config.environment or not is_sick(container):
        return 0
    if is_silent(container):
        raise ContainerError("the command took too long")
    return 1


def begin(machine: Machine, container: Container) -> None:
    """Listen at the port of a task that is asked over the network, for as long as it is well enough for that."""
    protocol = container.config.environment.get(HEALTH, "").split(":")[0].removeprefix("MESOS_")
    port = container.config.environment.get("PORT0")
    if protocol not in ("HTTP", "TCP") or port is None:
        return
    world, kept = machine.host.world, _Port(machine, container, int(port))
    kept.listen()
    if protocol == "TCP":
        for at_s, does in zip(sickness(container), (kept.close, kept.listen), strict=True):
            if math.isfinite(at_s):
                world.soon(at_s - container.began_s, does, process=container.kernel)
    container.at_end.append(kept.close)


class _Port:
    """The port of a container."""

    def __init__(self, machine: Machine, container: Container, port: int) -> None:
        self._machine, self._container, self._port = machine, container, port
        self._open: Listener | None = None

    def listen(self) -> None:
        """Take who connects from now on."""
        if self._container.termination is not None or self._open is not None:
            return
        world, ip = self._machine.host.world, self._machine.host.ip
        try:
            # Whose step this is does not matter: the port is the container's.
            self._open = self._container.kernel.context.copy().run(
                world.network.listen, ip, self._port, lambda: _Answers(self._container)
            )
        except OSError as error:
            world.tell(self._machine.host.name, f"{self._container.task} has no port: {error}")

    def close(self) -> None:
        """Take nobody more."""
        if self._open is not None:
            self._open.close()
            self._open = None


class _Answers(asyncio.Protocol):
    """Answers one request: well, sick, or not at all."""

    def __init__(self, container: Container) -> None:
        self._container, self._got = container, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        container = self._container
        if b"\r\n\r\n" not in self._got or container.termination is not None:
            return
        if self._got.startswith(b"GET /ready"):
            self._say(container.kernel.host.world.now_s >= container.began_s + ready_after_s(container))
            return
        sick = is_sick(container)
        if sick and is_silent(container):
            return
        self._say(not sick)

    def _say(self, well: bool) -> None:
        self._transport.write((WELL if well else SICK) + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        self._transport.close()
