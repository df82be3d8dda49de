"""Makes time, chance and threads those of the simulated world, before anything of the services is imported."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp.connector

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
    for owner, name, replacement in (*_clocks(), *_chance(), *_programs()):
        setattr(owner, name, replacement)
    disk.install()


def _clocks() -> list[tuple[Any, str, Any]]:
    real_time, real_monotonic, real_sleep = time.time, time.monotonic, time.sleep

    def wall() -> float:
        process = PROCESS.get()
        return real_time() if process is None else process.host.wall()

    def monotonic() -> float:
        process = PROCESS.get()
        return real_monotonic() if process is None else process.host.mono()

    def sleep(seconds: float) -> None:
        if PROCESS.get() is None:
            real_sleep(seconds)  # else a thread that waits, which is a step here

    return [
        (time, "time", wall),
        (time, "monotonic", monotonic),
        (time, "perf_counter", monotonic),
        (time, "time_ns", lambda: int(wall() * 1e9)),
        (time, "monotonic_ns", lambda: int(monotonic() * 1e9)),
        (aiohttp.connector, "monotonic", monotonic),  # which was imported by its name
        (time, "sleep", sleep),
    ]


def _chance() -> list[tuple[Any, str, Any]]:
    real_urandom = os.urandom

    def uuid4() -> uuid.UUID:
        if _world is None:
            raise RuntimeError("there is no world yet")
        return uuid.UUID(int=_world.random.getrandbits(128), version=4)

    def urandom(count: int) -> bytes:
        return real_urandom(count) if PROCESS.get() is None or _world is None else _world.random.randbytes(count)

    return [(uuid, "uuid4", uuid4), (os, "urandom", urandom)]


def _programs() -> list[tuple[Any, str, Any]]:
    real_start, real_popen = threading.Thread.start, subprocess.Popen.__init__

    def start(thread: threading.Thread) -> None:
        process = PROCESS.get()
        if process is None:
            real_start(thread)
            return
        world = process.host.world
        thread._started.set()  # type: ignore[attr-defined]

        def run() -> None:
            if thread.name == "zookeeper" and process.waits_for is not None and process.waits_for():
                world.loop.call_later(1.0, run)
            else:
                thread.run()

        world.loop.call_later(world.random.uniform(0.0, 0.02), run)

    def popen(started: Any, words: Any, *args: Any, **more: Any) -> None:
        if PROCESS.get() is not None:
            raise RuntimeError(f"a simulated process starts a real one: {words}")
        real_popen(started, words, *args, **more)

    async def start_connection(addr_infos: Any, **more: Any) -> Any:
        return addr_infos[0][4][:2]

    connector: Any = aiohttp.connector
    return [
        (threading.Thread, "start", start),
        (subprocess.Popen, "__init__", popen),
        (connector.aiohappyeyeballs, "start_connection", start_connection),
    ]
