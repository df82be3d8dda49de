"""Tasks that use simulated GPUs, and how many of those an agent says to have."""

from __future__ import annotations

import sys
from typing import Any

from tests.support.agent.live import LiveAgent
from tests.support.simulated.played import PROGRAM

USER = f"exec {sys.executable} -S {PROGRAM} 3000 1000"
"""It takes 3000 MiB and counts the kernels that it has run."""


def on_gpus(count: int) -> list[dict[str, Any]]:
    amounts = {"cpus": 0.1, "mem": 64.0, "gpus": float(count)}
    return [
        {"name": name, "type": "SCALAR", "scalar": {"value": value}, "allocation_info": {"role": "*"}}
        for name, value in amounts.items()
    ]


def total_said(agent: LiveAgent) -> list[list[dict[str, Any]]]:
    """Return what the agent said to have, each time that it said so."""
    found = []
    for name, message in agent.master.received:
        if name in ("RegisterSlaveMessage", "ReregisterSlaveMessage"):
            found.append(message["slave"]["resources"])
        elif name == "UpdateSlaveMessage":
            found.append(message.get("total_resources", []))
    return [resources for resources in found if resources]  # an UpdateSlaveMessage may be about something else


def advertised(agent: LiveAgent) -> list[float]:
    """Return how many GPUs the agent said to have, each time that it said so."""
    return [one["scalar"]["value"] for resources in total_said(agent) for one in resources if one["name"] == "gpus"]
