"""What the master and its agents say of GPUs and tasks, gathered over documented endpoints.

Each agent is asked at the same time as the others. One that does not answer does not stop the rest: what it knows is
left out, and `silent` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mesos_gpu.errors import MesosGpuError

if TYPE_CHECKING:
    from marathon_cli.clients.client import Marathon
    from marathon_cli.clients.sandbox import Mesos
    from mesos_gpu.marathon.matching.machines import Machine
    from mesos_gpu.mesos.clients.agents import Agent

_T = TypeVar("_T")
_A = TypeVar("_A", "Agent", "Machine", "Agent | Machine")
_AT_ONCE = 16


class Cluster:
    """The master behind a Marathon, with its agents. `silent` names agents that did not answer, with the reason."""

    def __init__(self, mesos: Mesos) -> None:
        self._mesos = mesos
        self.silent: dict[str, str] = {}

    @classmethod
    def of(cls, marathon: Marathon) -> Cluster:
        """Return the cluster that a Marathon belongs to. Raises Unavailable when it does not say which."""
        return cls(marathon.mesos())

    def agents(self) -> list[Agent]:
        """Return all registered agents, by hostname; those with reservations with what is used of each role."""
        from mesos_gpu.mesos.clients.agents import read_agent

        found = [read_agent(document) for document in self.slaves()]
        return sorted(found, key=lambda agent: (agent.hostname, _numbers(agent.address), agent.id))

    def machines(self) -> list[Machine]:
        """Return the same with their exact resources, as offers are matched on them."""
        from mesos_gpu.marathon.matching.machines import read_machines

        return read_machines(self.slaves())

    def slaves(self) -> list[dict[str, Any]]:
        """Return the documents that `agents` are read of."""

        def is_short(document: Mapping[str, Any]) -> bool:
            return bool(document.get("reserved_resources")) and "used_resources_full" not in document

        return [self._alone(document) if is_short(document) else document for document in self._mesos.slaves()]

    def gpus(self, agents: Iterable[Agent]) -> dict[str, list[dict[str, Any]] | None]:
        """Return the GPUs of agents by agent id; None where an agent does not show them, as Mesos' own does not."""

        def ask(agent: Agent) -> list[dict[str, Any]] | None:
            found = self._mesos.ask_agent(agent.address, "/gpus", missing=None)
            return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else None

        return self._each(agents, ask)

    def shares(self, agents: Iterable[Agent]) -> dict[str, list[dict[str, Any]] | None]:
        """Return the cards that tasks share on agents, by agent id; None where an agent does not show them."""

        def ask(agent: Agent) -> list[dict[str, Any]] | None:
            found = self._mesos.ask_agent(agent.address, "/gpu_shares", missing=None)
            return [card for card in found if isinstance(card, dict)] if isinstance(found, list) else None

        return self._each(agents, ask)

    def images(self, agents: Iterable[Agent | Machine]) -> dict[str, list[dict[str, Any]]]:
        """Return the images that agents keep, by agent id; none where an agent does not tell."""

        def ask(agent: Agent | Machine) -> list[dict[str, Any]]:
            found = self._mesos.ask_agent(agent.address, "/images", missing={})
            kept = found.get("images") if isinstance(found, dict) else None
            return [image for image in kept if isinstance(image, dict)] if isinstance(kept, list) else []

        return {agent_id: found or [] for agent_id, found in self._each(agents, ask).items()}

    def tasks(self, agents: Iterable[Agent | Machine]) -> dict[str, list[dict[str, Any]]]:
        """Return the tasks that are on agents now, by agent id, each with the name of its framework."""

        def ask(agent: Agent | Machine) -> list[dict[str, Any]]:
            from mesos_gpu.mesos.clients.agents import tasks_in

            return tasks_in(self._mesos.ask_agent(agent.address, "/state", missing={}))

        return {agent_id: found or [] for agent_id, found in self._each(agents, ask).items()}

    def machine(self, agent: Agent) -> Mapping[str, float]:
        """Return what an agent measures of its machine, named as in /metrics/snapshot; nothing when it is silent."""
        found = self._each([agent], lambda one: self._mesos.ask_agent(one.address, "/metrics/snapshot", missing={}))
        return found.get(agent.id) or {}

    def roles(self) -> list[dict[str, Any]]:
        """Return the roles with their quota; none where the master does not say."""
        found = self._mesos.ask_master("/roles", missing={})
        roles = found.get("roles") if isinstance(found, dict) else None
        return [role for role in roles if isinstance(role, dict)] if isinstance(roles, list) else []

    def close(self) -> None:
        """Close the connections."""
        self._mesos.close()

    def _alone(self, document: dict[str, Any]) -> dict[str, Any]:
        found = self._mesos.ask_master("/slaves", {"slave_id": str(document.get("id"))}, missing={})
        slaves = found.get("slaves") if isinstance(found, dict) else None
        return slaves[0] if isinstance(slaves, list) and len(slaves) == 1 else document

    def _each(self, agents: Iterable[_A], ask: Callable[[_A], _T]) -> dict[str, _T | None]:
        asked = list(agents)

        def safely(agent: _A) -> _T | None:
            try:
                return ask(agent)
            except MesosGpuError as error:
                self.silent[agent.id] = str(error)
                return None

        if len(asked) < 2:
            return {agent.id: safely(agent) for agent in asked}
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
            return dict(zip([agent.id for agent in asked], pool.map(safely, asked), strict=True))


def owners(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the app of each of Marathon's tasks, by task id."""
    return {str(task.get("id")): str(task.get("appId")) for task in tasks}


def _numbers(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0
