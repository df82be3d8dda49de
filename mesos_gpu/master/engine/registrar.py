"""Writes the registry behind the event loop's back: in a thread, one write at a time; says when a change is durable.

A master whose registry cannot be written leads no more: it is told so once, and nothing that was to follow happens.
Source: Mesos src/master/registrar.cpp.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.registry.operations import Lead, Operation
from mesos_gpu.master.registry.queue import RegistryQueue
from mesos_gpu.mesos.timers import Timer

T = TypeVar("T")


class Registrar:
    """The one writer of a registry. One event loop; `recover` comes first."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue: RegistryQueue[Callable[[], None]] = RegistryQueue(Record())
        self._writing: asyncio.Future[None] | None = None
        self._due = self._closed = self._following = False
        self._stored, self._fetched_ms = Timer("registrar/state_store"), 0.0
        self.on_failure: Callable[[str], None] = lambda why: None
        """Told once why the registry cannot be written; nothing is written after that."""

    @property
    def record(self) -> Record:
        """Return what is durable. Not to be changed."""
        return self._queue.durable

    @property
    def idle(self) -> bool:
        """Return whether all that was asked for is durable, and followed."""
        return not len(self._queue) and not self._following

    async def recover(self, master_id: str) -> Record:
        """Read the registry, and write that this master leads: no earlier one can write it from then on.

        Raises Unavailable when it cannot be read or written, or is damaged.
        """

        def read_and_write() -> Record:
            record = self._registry.load()
            self._fetched_ms = (time.monotonic() - began_s) * 1000
            Lead(master_id).apply(record)
            self._write(record)
            return record

        began_s = time.monotonic()
        record = await _in_thread(read_and_write)
        self._queue = RegistryQueue(record)
        return record

    def apply(self, operation: Operation, follows: Callable[[], None]) -> None:
        """Make a change; call `follows` in the event loop when it, and all before it, is durable. Never at once."""
        if self._closed:
            return
        self._queue.ask(operation, follows)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._begin)  # with what else this turn of the loop asks for

    async def close(self) -> None:
        """Stop writing; wait for the write that is under way, whose fate nobody hears of any longer."""
        self._closed = True
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def metrics(self) -> dict[str, float]:
        """Return Mesos' metrics of its registrar."""
        return {
            **self._stored.shown(),
            "registrar/queued_operations": float(len(self._queue)),
            "registrar/registry_size_bytes": float(self._registry.size),
            "registrar/state_fetch_ms": self._fetched_ms,
        }

    def _begin(self) -> None:
        self._due = False
        while not self._closed and (batch := self._queue.take()) is not None:
            if batch.record is not None:
                self._writing = asyncio.ensure_future(_in_thread(partial(self._write, batch.record)))
                self._writing.add_done_callback(self._written)
                return
            self._finish()

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing = None
        error = None if writing.cancelled() else writing.exception()
        if self._closed:
            return
        if error is not None:
            self._closed = True
            self.on_failure(str(error))
            return
        self._finish()
        self._begin()

    def _finish(self) -> None:
        self._following = True
        *most, last = self._queue.done()
        for follows in most:
            follows()
        self._following = False
        last()

    def _write(self, record: Record) -> None:
        began_s = time.monotonic()
        self._registry.save(record)
        self._stored.add(time.monotonic() - began_s)


async def _in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns, from a thread that a program that ends does not wait for."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(values: list[T], error: Exception | None) -> None:
        if result.done():
            return  # nobody waits any more
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(values[0])

    def run() -> None:
        values: list[T] = []
        error: Exception | None = None
        try:
            values.append(call())
        except Exception as problem:
            error = problem
        try:
            loop.call_soon_threadsafe(settle, values, error)
        except RuntimeError:
            return  # the loop is gone, and with it who waited

    threading.Thread(target=run, name="registrar", daemon=True).start()
    return await result
