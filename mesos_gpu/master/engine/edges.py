"""What the engine acts through: schedulers' and operators' streams, and the way to the agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mesos_gpu.master.state.actions import ToAgent
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document


class Subscriber(Protocol):
    """An open stream, or whatever takes the place of one."""

    def send(self, event: Document) -> None:
        """Send an event; never blocks."""

    def close(self) -> None:
        """End the stream after what was sent."""


class Agents(Protocol):
    """The way to the agents."""

    def perform(self, action: ToAgent) -> None:
        """Send an agent a message."""

    def removals(self) -> Mapping[str, int]:
        """Return how many agents were `scheduled` to be unreachable, are since (`completed`), or answered in time."""

    def observe(self, agent_id: AgentId) -> None:
        """Link to an agent and ping it from now on."""

    def part(self, agent_id: AgentId, *, silent: bool) -> None:
        """Stop pinging it and close the connection to it; with `silent`, what has not arrived yet never will."""
