"""Pools of a box that runs: agents are added and taken away while the others go on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mesos_gpu.errors import BadInput, MesosGpuError, Unavailable
from mesos_gpu.local.layouts import note_layout, numbers_on_disk
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.pools import Layout, Seat, read_pool
from mesos_gpu.local.record import left_behind


class Agents(Protocol):
    """What a supervisor does for its pools."""

    layout: Layout

    async def start_agents(self, layout: Layout, seats: Sequence[Seat]) -> None:
        """Start these agents and note them. Raises Unavailable when one does not start; then none of them runs."""

    async def end_agents(self, names: Sequence[str]) -> None:
        """End these agents and their tasks, and forget them."""

    def shown(self) -> Mapping[str, Mapping[str, Any]]:
        """Return url and number of GPUs of each agent by name."""


class Pools:
    """Answers what is asked about pools. What is written down is never less than what runs."""

    def __init__(self, work_dir: Path, agents: Agents) -> None:
        self._work_dir, self._agents = work_dir, agents

    async def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what is asked; the answer lists the pools as they then are. Raises MesosGpuError."""
        match request:
            case {"ask": "pools"}:
                pass
            case {"ask": "create", "pool": str(text)}:
                await self._grow(self._agents.layout.create(read_pool(text), self._gone()))
            case {"ask": "grow", "name": str(name), "agents": int(count)} if count > 0:
                await self._grow(self._agents.layout.grow(name, count, self._gone()))
            case {"ask": "delete", "name": str(name)}:
                await self._shrink(self._agents.layout.delete(name))
            case {"ask": "remove", "agents": [*numbers]} if numbers:
                left = self._agents.layout.without([int(number) for number in numbers])
                if not left.seats:
                    raise BadInput("these are the last agents of the box; `mesos-gpu down` ends the box")
                await self._shrink(left)
            case _:
                raise BadInput(f"a box does not know how to {request.get('ask')!r}; is it of another version?")
        return {"pools": self._pools()}

    async def _grow(self, layout: Layout) -> None:
        before = self._agents.layout
        new = [seat for seat in layout.seats if seat not in before.seats]
        self._note(layout)
        try:
            await self._agents.start_agents(layout, new)
        except BaseException:
            self._note(before)
            for seat in new:
                self._clear(seat.name)
            raise

    async def _shrink(self, layout: Layout) -> None:
        gone = [seat for seat in self._agents.layout.seats if seat not in layout.seats]
        await self._agents.end_agents([seat.name for seat in gone])
        self._note(layout)
        left = [seat.name for seat in gone if not self._clear(seat.name)]
        if left:
            raise Unavailable(
                f"{', '.join(left)} ended, but containers of it may still run; what it kept stays in {self._work_dir}"
            )

    def _note(self, layout: Layout) -> None:
        try:
            note_layout(self._work_dir, layout)
        except OSError as error:
            raise Unavailable(f"cannot write down the pools in {self._work_dir}: {error.strerror}") from None
        self._agents.layout = layout

    def _gone(self) -> frozenset[int]:
        """Return numbers that no new agent may have: something of an earlier one lies there."""
        return numbers_on_disk(self._work_dir)

    def _clear(self, name: str) -> bool:
        """Remove what an agent kept; not where containers may still run. Return whether it is gone."""
        below = runtime_dir(self._work_dir)
        if left_behind(below, name):
            return False
        for folder in (below / name, self._work_dir / name):
            shutil.rmtree(folder, ignore_errors=True)
        return True

    def _pools(self) -> list[dict[str, Any]]:
        layout, shown = self._agents.layout, self._agents.shown()
        return [
            {
                "name": pool.name,
                "gpus": pool.gpus,
                "model": None if pool.make is None else pool.make.model,
                "memoryMib": None if pool.make is None else pool.make.memory_mib,
                "driver": None if pool.make is None else pool.make.driver_version,
                "agents": [
                    {"number": seat.number, "name": seat.name, **shown.get(seat.name, {"url": None, "gpus": pool.gpus})}
                    for seat in layout.of(pool.name)
                ],
            }
            for pool in layout.pools
        ]


async def start_all(starts: Sequence[Any]) -> None:
    """Start several services at once. When one fails, the others are waited for before its error is raised."""
    done = await asyncio.gather(*starts, return_exceptions=True)
    failed = [one for one in done if isinstance(one, BaseException)]
    if failed:
        raise next((one for one in failed if isinstance(one, MesosGpuError)), failed[0])
