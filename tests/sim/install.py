"""Makes time, chance and threads those of the simulated world, before anything of the services is imported."""

from __future__ import annotations

import random
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from tests.sim import disk
from tests.sim.world import PROCESS

if TYPE_CHECKING:
    from tests.sim.world import World

_world: World | None = None


def begin(world: World) -> None:
    """Let this be the world whose chance is everybody's."""
    global _world
    _world = world
    random.seed(world.seed)


def install() -> None:
    """Put the simulated things in the place of the real ones. For good."""
    real_time, real_monotonic, real_start = time.time, time.monotonic, threading.Thread.start

    def wall() -> float:
        process = PROCESS.get()
        return real_time() if process is None else process.host.wall()

    def monotonic() -> float:
        process = PROCESS.get()
        return real_monotonic() if process is None else process.host.mono()

    def uuid4() -> uuid.UUID:
        if _world is None:
            raise RuntimeError("there is no world yet")
        return uuid.UUID(int=_world.random.getrandbits(128), version=4)

    def start(thread: threading.Thread) -> None:
        process = PROCESS.get()
        if process is None:
            real_start(thread)
            return
        world = process.host.world
        thread._started.set()  # type: ignore[attr-defined]
        world.loop.call_later(world.random.uniform(0.0, 0.02), thread.run)

    replaced: tuple[tuple[Any, str, Any], ...] = (
        (time, "time", wall),
        (time, "monotonic", monotonic),
        (time, "perf_counter", monotonic),
        (time, "time_ns", lambda: int(wall() * 1e9)),
        (time, "monotonic_ns", lambda: int(monotonic() * 1e9)),
        (uuid, "uuid4", uuid4),
        (threading.Thread, "start", start),
    )
    for owner, name, replacement in replaced:
        setattr(owner, name, replacement)
    disk.install()
