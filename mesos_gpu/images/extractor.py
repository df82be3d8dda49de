"""Layers unpacked in processes of their own, as many at a time as there are workers."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from mesos_gpu.errors import ImageError
from mesos_gpu.images.unpacked import Answer, Extracted, Job, LayerLimits

# Isolated, so that neither the environment nor the working directory decides what is imported: the path is ours.
_CODE = "import sys; sys.path[:] = sys.argv[2:]; from mesos_gpu.images.worker import main; main(int(sys.argv[1]))"


class Extractor:
    """Starts workers when there is something to do; `rest` ends those that have nothing."""

    def __init__(self, workers: int) -> None:
        self._room = asyncio.Semaphore(workers)
        self._idle: list[asyncio.subprocess.Process] = []
        self._busy = 0
        self._workers, self._starting = workers, list[asyncio.Future[None]]()

    def expect(self, layers: int) -> None:
        """So many layers will come: have workers for them start while they are fetched. What fails is tried again."""
        there = len(self._idle) + len(self._starting) + self._busy
        for _ in range(min(layers, self._workers) - there):
            starting = asyncio.ensure_future(self._stand_by())
            self._starting.append(starting)
            starting.add_done_callback(self._starting.remove)

    async def _stand_by(self) -> None:
        with suppress(ImageError):
            self._idle.append(await self._start())

    async def extract(self, blob: Path, into: Path, diff_id: str, limits: LayerLimits) -> Extracted:
        """Unpack a layer as `extract_layer` does. Raises ImageError. Cancelled, its worker is gone on return."""
        async with self._room:
            while self._starting and not self._idle:
                await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
            worker = self._idle.pop() if self._idle else await self._start()
            done = False
            self._busy += 1
            try:
                answer = await self._ask(worker, Job(str(blob), str(into), diff_id, limits))
                done = True
            finally:
                self._busy -= 1
                if done:
                    self._idle.append(worker)
                else:
                    await asyncio.shield(_end(worker))
        if answer.extracted is None:
            raise ImageError(answer.error or "a layer could not be unpacked")
        return answer.extracted

    async def rest(self) -> None:
        """End the workers that have nothing to do."""
        if self._starting:
            await asyncio.wait(self._starting)
        idle, self._idle = self._idle, []
        for worker in idle:
            await _end(worker)

    async def _start(self) -> asyncio.subprocess.Process:
        # Without `site` a tree that is installed in place would not be found: it is named.
        path = [str(Path(__file__).absolute().parents[2]), *(entry for entry in sys.path if Path(entry).is_absolute())]
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _CODE, str(os.getpid()), *path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise ImageError(f"cannot start the process that unpacks layers: {error.strerror}") from error

    async def _ask(self, worker: asyncio.subprocess.Process, job: Job) -> Answer:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(msgspec.json.encode(job) + b"\n")
            await worker.stdin.drain()
            line = await worker.stdout.readline()
            if line.endswith(b"\n"):
                return msgspec.json.decode(line, type=Answer)
        except ConnectionError:
            pass
        await worker.wait()
        raise ImageError(f"the process that unpacks layers ended ({worker.returncode}) at {job.diff_id}")


async def _end(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        try:
            worker.kill()
        except ProcessLookupError:
            pass
    await worker.wait()
    if worker.stdin is not None:
        worker.stdin.close()
