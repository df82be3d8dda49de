"""The agent of this machine: the box's, where one is up."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from marathon_cli.console.console import Console

if TYPE_CHECKING:
    from mesos_gpu.doors.common.agent import AgentAddress


def box_agents(console: Console) -> list[str]:
    """Return the URLs of the box's agents; none without a box."""
    try:
        box = json.loads((console.box_dir(os.environ) / "box.json").read_bytes())
        return [str(agent["url"]).rstrip("/") for agent in box.get("agents", [])]
    except (OSError, ValueError, TypeError, LookupError):
        return []


def local_agent(console: Console, url: str | None) -> AgentAddress:
    """Return the agent to ask: `url`, or the one that the environment names, or the box's first, or the usual one.

    The box's asks for the box's credential, which whoever started it may read.
    """
    from mesos_gpu.doors.common.agent import VARIABLE, find_agent

    of_box = box_agents(console)
    given = url or os.environ.get(VARIABLE)
    address = find_agent(given or next(iter(of_box), None))
    netrc = console.box_dir(os.environ) / "access" / "netrc"
    if address.url.rstrip("/") in of_box and not address.credential and netrc.exists():
        return replace(address, credential=str(netrc))
    return address
