"""The agent of this machine: the box's, where one is up."""

from __future__ import annotations

import json
import os

from marathon_cli.console.console import Console


def box_agents(console: Console) -> list[str]:
    """Return the URLs of the box's agents; none without a box."""
    try:
        box = json.loads((console.box_dir(os.environ) / "box.json").read_bytes())
        return [str(agent["url"]).rstrip("/") for agent in box.get("agents", [])]
    except (OSError, ValueError, TypeError, LookupError):
        return []


def local_agent(console: Console, url: str | None) -> str | None:
    """Return the agent to ask: `url`, or the one that the environment names (None), or the box's first."""
    if url or os.environ.get("MESOS_GPU_AGENT"):
        return url
    return next(iter(box_agents(console)), None)
