"""Parts of cards as the resources of a task (v1)."""

from __future__ import annotations

from typing import Any


def ranges(name: str, *pairs: tuple[int, int]) -> dict[str, Any]:
    listed = [{"begin": begin, "end": end} for begin, end in pairs]
    return {"name": name, "type": "RANGES", "ranges": {"range": listed}, "allocation_info": {"role": "*"}}


def part(card: int, mem: int, weight: int = 1, first: int = 0) -> list[dict[str, Any]]:
    at = card * 1000 + first
    return [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}, "allocation_info": {"role": "*"}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": 32.0}, "allocation_info": {"role": "*"}},
        ranges("gpu_mem", (at, at + mem - 1)),
        ranges("gpu_slices", (at, at + weight - 1)),
    ]
