"""The program mesos-gpu-marathon, run as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp


class Program:
    """mesos-gpu-marathon over one folder; its state is in there, unless `store` says where else."""

    def __init__(self, folder: Path, master: str, store: str | None = None) -> None:
        self._master = master
        self._store = store or f"--store_path={folder / 'marathon.db'}"
        self.process: asyncio.subprocess.Process | None = None
        self.ready = folder / "ready.json"
        self.url = ""

    async def spawn(self, *flags: str, **environ: str) -> asyncio.subprocess.Process:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mesos_gpu.marathon.service",
            f"--master={self._master}",
            "--mesos_role=slave_public",
            "--http_port=0",
            self._store,
            f"--ready_file={self.ready}",
            *flags,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **environ},
        )
        return self.process

    async def start(self, *flags: str) -> None:
        self.ready.unlink(missing_ok=True)
        process = await self.spawn(*flags)
        while not self.ready.exists():
            assert process.returncode is None, await self.words()
            await asyncio.sleep(0.01)
        document = json.loads(self.ready.read_text())
        assert document["pid"] == process.pid
        self.url = document["url"]

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.communicate(), 60)
        return int(self.process.returncode or 0)

    async def words(self) -> str:
        assert self.process is not None
        _, errors = await asyncio.wait_for(self.process.communicate(), 60)
        return errors.decode()

    async def call(self, method: str, path: str, document: Any = None) -> Any:
        async with aiohttp.request(method, self.url + path, json=document) as answer:
            return await answer.json()
