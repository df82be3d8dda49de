"""An agent program whose GPUs are lent to doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.agent.live import LiveAgent


class Bank:
    """An agent with four simulated GPUs, its book, and the file that tells doors where it is."""

    def __init__(self, agent: LiveAgent) -> None:
        self.agent = agent

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.agent.port}"

    def tell(self, settings: Path) -> None:
        """Have hooks ask this agent."""
        settings.write_text(json.dumps({"agent": self.url}))

    async def leases(self) -> list[dict[str, Any]]:
        return list(await self.agent.get("/gpus/leases"))

    async def lend(self, **keys: Any) -> dict[str, Any]:
        async with aiohttp.ClientSession() as session, session.post(f"{self.url}/gpus/leases", json=keys) as response:
            assert response.status == 201, await response.text()
            return dict(await response.json())

    def advertised(self) -> int:
        """Return how many GPUs the newest registration has."""
        names = ("RegisterSlaveMessage", "ReregisterSlaveMessage")
        newest = [document for name, document in self.agent.master.received if name in names][-1]
        return int(sum(r["scalar"]["value"] for r in newest["slave"]["resources"] if r["name"] == "gpus"))

    async def until_advertised(self, gpus: int) -> None:
        await self.agent.master.until(lambda: self.advertised() == gpus)
