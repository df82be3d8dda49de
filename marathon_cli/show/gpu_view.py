"""The GPUs behind one Marathon, looked at as often as wanted, with the apps that hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from marathon_cli.clients.marathon import Pods
from marathon_cli.clients.mesos import Cluster, owners
from marathon_cli.show.gpu_lines import NO_ANSWER, GpuLine, gpu_lines, group_of, pod_gpus, untold
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.mesos.clients.agents import Agent, names
from mesos_gpu.mesos.shares.cgpu import MEM_CONTAINER

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon


class GpuView:
    """What is known of GPUs now: `look_again` first. `agents` are all of the cluster's; those with GPUs are asked."""

    def __init__(self, marathon: Marathon) -> None:
        self._marathon, self._cluster = marathon, Cluster(marathon.mesos())
        self.agents: list[Agent] = []
        self._untold: list[str] = []
        self._said = False

    def look_again(self) -> None:
        """Take what the master knows again. Raises Unavailable."""
        self._cluster.silent.clear()
        self.agents = self._cluster.agents()

    def lines(self) -> list[GpuLine]:
        """Return every GPU, by agent and index."""
        called = names(self.agents)
        # An agent whose GPUs are all withdrawn has none to offer, and attributes that tell of them.
        some = [agent for agent in self.agents if agent.gpus or "gpu_count" in agent.attributes]
        shown = self._cluster.gpus(some)
        strange = [agent for agent in some if shown[agent.id] is None and agent.id not in self._cluster.silent]
        self._untold = [called[agent.id] for agent in strange]
        tasks = self._cluster.tasks(strange)
        apps = owners(self._marathon.tasks())
        lines: list[GpuLine] = []
        for agent in some:
            found = gpu_lines(agent, called[agent.id], shown[agent.id], tasks.get(agent.id, []), apps)
            silent = agent.id in self._cluster.silent
            lines += [replace(line, condition=NO_ANSWER) for line in found] if silent else found
        return lines

    def silent_agents(self) -> list[str]:
        """Return the agents that did not answer."""
        called = names(self.agents)
        return [called[agent_id] for agent_id in self._cluster.silent]

    def tell_silent(self, say: Callable[[str], None]) -> None:
        """Say which agents did not answer, and why; and, once, which do not show their GPUs."""
        called = names(self.agents)
        for agent_id, reason in self._cluster.silent.items():
            say(f"agent {called[agent_id]} does not tell of its GPUs: {reason}")
        if self._untold and not self._said:
            self._said = True
            say(untold(self._untold))

    def close(self) -> None:
        """Close the connections to master and agents."""
        self._cluster.close()


def asked_gpus(marathon: Marathon, tasks: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Return how many GPUs each task's app was to have, or its pod, by their ids; Marathon's tasks do not tell.

    A pod that is not there any more is left out; of an app with parts of GPUs its agents know more. Raises Unavailable.
    """
    if not tasks:
        return {}
    asked: dict[str, int | None] = {
        str(app.get("id")): None if _has_part(app) else int(app.get("gpus") or 0) for app in marathon.apps()
    }
    for name in {str(task.get("appId")) for task in tasks} - set(asked):
        try:
            asked[name] = pod_gpus(Pods(marathon).show(name))
        except NotFound:
            continue
    return asked


def _has_part(app: Mapping[str, Any]) -> bool:
    return bool(app.get("gpuShare")) or MEM_CONTAINER in (app.get("env") or {})


def held_gpus(marathon: Marathon, tasks: Sequence[Mapping[str, Any]]) -> dict[str, list[GpuLine]]:
    """Return which GPUs tasks hold, by `group_of` their ids; only their agents are asked. Nothing where nobody tells.

    A list of tasks is worth showing without it, so nothing is raised.
    """
    where = {str(task.get("slaveId")) for task in tasks}
    try:
        cluster = Cluster(marathon.mesos())
    except MesosGpuError:
        return {}
    try:
        agents = cluster.agents()
        called = names(agents)
        mine = [agent for agent in agents if agent.id in where and (agent.gpus or "gpu_count" in agent.attributes)]
        apps = owners(tasks)
        found: dict[str, list[GpuLine]] = {}
        for agent_id, shown in cluster.gpus(mine).items():
            (agent,) = (one for one in mine if one.id == agent_id)
            for line in gpu_lines(agent, called[agent_id], shown or [], (), apps):
                for task in [line.task, *(share[0] for share in line.shares)]:
                    if task:
                        found.setdefault(group_of(task), []).append(line)
        return found
    except MesosGpuError:
        return {}
    finally:
        cluster.close()
