"""One service of the box as a process: started, waited for, started again when it dies, stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking.forks import Forked, Forks
from mesos_gpu.local.memory import MemoryWatch
from mesos_gpu.local.plan import ServiceSpec, next_delay_s
from mesos_gpu.local.record import Service, start_time

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 60.0
_POLL_S = 0.005


class _Ready(msgspec.Struct):
    """What a service writes to its ready file."""

    pid: int
    url: str
    gpus: int = 0
    gpu_driver: str = ""


class ServiceProcess:
    """Keeps one service running from `start` to `stop`."""

    def __init__(
        self, spec: ServiceSpec, forks: Forks, run_dir: Path, log_file: Path, changed: Callable[[], None]
    ) -> None:
        """`changed` is called whenever `service` has a new value after the first start."""
        self.spec = spec
        self.service: Service | None = None
        self._forks = forks
        self._ready_file = run_dir / f"{spec.name}.json"
        self._log_file = log_file
        self._changed = changed
        self._extra: tuple[str, ...] = ()
        self._port = spec.port
        self._process: Forked | None = None
        self._memory: MemoryWatch | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stopped = False

    async def start(self, *extra: str) -> Service:
        """Start it with these further flags and wait until it can be used.

        Raises Unavailable with the service's own last words when it cannot be.
        """
        self._extra = extra
        self.service = await self._run()
        if self._stopped:
            raise Unavailable(f"{self.spec.name} was stopped while it started")
        # A restart must come back where the others know it, so a port that was picked is kept.
        self._port = int(self.service.url.rpartition(":")[2])
        self._watch = asyncio.get_running_loop().create_task(self._keep())
        return self.service

    async def stop(self, number: signal.Signals, grace_s: float) -> None:
        """End it with a signal, or with SIGKILL when it has not gone after `grace_s`."""
        self._stopped = True
        if self._watch is not None:
            self._watch.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except asyncio.TimeoutError:
            log.warning("%s did not stop within %g s of %s; killing it", self.spec.name, grace_s, number.name)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        # On a disk that has become read-only it stays; the next start removes it before it looks for it.
        with suppress(OSError):
            self._ready_file.unlink(missing_ok=True)

    async def _run(self) -> Service:
        self._ready_file.unlink(missing_ok=True)
        flags = self.spec.argv(port=self._port, ready_file=self._ready_file, extra=self._extra)
        with self._log_file.open("ab") as log_file:
            starting = self._forks.start(self.spec.module, flags, self.spec.name, log_file.fileno())
            self._process = process = await starting
        self._memory = MemoryWatch.of(process.pid)
        deadline = monotonic() + READY_TIMEOUT_S
        while not self._ready_file.exists():
            if process.returncode is not None:
                raise Unavailable(f"{self.spec.name} did not start: {self._last_words()}")
            if monotonic() > deadline:
                raise Unavailable(
                    f"{self.spec.name} was not ready after {READY_TIMEOUT_S:g} s; its log: {self._log_file}"
                )
            await asyncio.sleep(_POLL_S)
        ready = msgspec.json.decode(self._ready_file.read_bytes(), type=_Ready)
        return Service(ready.url, ready.pid, start_time(ready.pid), ready.gpus, ready.gpu_driver)

    async def _keep(self) -> None:
        """Start the service again each time it ends, with growing delays, for as long as the box runs."""
        delay_s: float | None = None
        while self._process is not None:
            began = monotonic()
            status = await self._process.wait()
            delay_s = next_delay_s(delay_s, monotonic() - began)
            how = _how(status) + (self._memory.why(status) if self._memory is not None else "")
            log.warning("%s ended (%s); starting it again in %g s", self.spec.name, how, delay_s)
            await asyncio.sleep(delay_s)
            try:
                self.service = await self._run()
            except (Unavailable, OSError, msgspec.DecodeError) as error:
                # A full disk, or no memory for a process, is a reason to try again as a program that fails is.
                log.warning("%s is not back: %s", self.spec.name, error)
                if self._process.returncode is None:
                    self._process.send_signal(signal.SIGKILL)
            else:
                log.info("%s is back as pid %d", self.spec.name, self.service.pid)
                await self._tell()

    async def _tell(self) -> None:
        """Say that `service` has a new value, until it can be written down or the service has ended once more."""
        delay_s: float | None = None
        while self._process is not None and self._process.returncode is None:
            try:
                self._changed()
            except Unavailable as error:
                delay_s = next_delay_s(delay_s, 0.0)
                log.warning("cannot record that %s is back: %s; trying again", self.spec.name, error)
                await asyncio.sleep(delay_s)
            else:
                return

    def _last_words(self) -> str:
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        words = lines[-1] if lines else "it said nothing"
        return f"{words} (log: {self._log_file})" if "Error" in words else words


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
