"""The GPUs of a cluster, one line each: where, what, how it is, who holds it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from marathon_cli.clients.marathon import Pods
from marathon_cli.clients.mesos import Cluster, owners
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.marathon.model.task_ids import app_of, instance_of
from mesos_gpu.mesos.clients.agents import Agent, names
from mesos_gpu.mesos.shares.cgpu import MEM_CONTAINER
from mesos_gpu.mesos.shares.gpu_links import LINKS_ATTRIBUTE, peers, read_links

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon


_MODEL = "gpu_model"
NO_ANSWER = "no answer"
"""The condition of the GPUs of an agent that could not be asked."""


@dataclass(frozen=True, slots=True)
class GpuLine:
    """One GPU. None is what nobody tells: an agent of Mesos' own says how many GPUs it has, and not which."""

    agent: str
    agent_id: str
    index: int | None = None
    uuid: str | None = None
    model: str | None = None
    memory_mib: int | None = None
    driver: str | None = None
    condition: str = "unknown"
    """healthy, suspect, draining, unhealthy; unknown where the agent does not say, NO_ANSWER where it is silent."""
    reason: str | None = None
    task: str | None = None
    app: str | None = None
    """The app of the task, where it is Marathon's; else the task's framework."""
    door: str | None = None
    """The way that a holder outside Mesos came by: docker, cdi, kubernetes."""
    lessee: str | None = None
    """That holder, and its lease."""
    lease: str | None = None
    memory_level: str | None = None
    """What keeps tasks to their part of its memory, where they share it."""
    sharers: tuple[str, ...] = ()
    """The tasks that share it."""
    shares: tuple[tuple[str, int, str], ...] = ()
    """Their parts: task, MiB, and what keeps it to that."""
    memory_used_mib: int | None = None
    utilization_percent: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    nvlink: tuple[int, ...] = ()
    """The GPUs of its agent with which it shares NVLink, by index."""

    @property
    def held(self) -> bool:
        """Return whether somebody holds it, in Mesos or outside."""
        return self.task is not None or self.lease is not None or bool(self.sharers)

    @property
    def holder(self) -> str:
        """Return who holds it, in a word."""
        if self.lease is not None:
            return f"{self.door}: {self.lessee or self.lease}"
        if self.sharers:
            return ", ".join(self.sharers)
        return self.app or self.task or "---"

    def document(self) -> dict[str, Any]:
        """Return it for programs; what is not known is left out."""
        found = {key: value for key, value in asdict(self).items() if value is not None}
        del found["sharers"]
        found["shares"] = [{"task": task, "memory_mib": mib, "level": level} for task, mib, level in self.shares]
        if self.memory_level is None:
            del found["shares"]
        if not self.nvlink:
            del found["nvlink"]
        return found


def gpu_lines(
    agent: Agent,
    called: str,
    shown: Sequence[Mapping[str, Any]] | None,
    tasks: Sequence[Mapping[str, Any]] = (),
    apps: Mapping[str, str] | None = None,
) -> list[GpuLine]:
    """Return the GPUs of one agent, by index.

    `shown` is its /gpus, None where it has no such endpoint: then `tasks` (those of its /state) say who holds how
    many. `apps` has the app of each task id that Marathon knows.
    """
    if shown is None:
        return _counted(agent, called, tasks, apps or {})
    frameworks = {str(task.get("id")): str(task.get("framework_name", "")) for task in tasks}
    linked = read_links(agent.attributes.get(LINKS_ATTRIBUTE, ""))
    lines = []
    for gpu in shown:
        task = str(gpu["task_id"]) if gpu.get("task_id") else None
        task = task or (f"container {gpu['container_id']}" if gpu.get("container_id") else None)
        lines.append(
            GpuLine(
                agent=called,
                agent_id=agent.id,
                index=_whole(gpu.get("index")),
                uuid=_words(gpu.get("uuid")),
                model=_words(gpu.get("name")),
                memory_mib=_whole(gpu.get("memory_total_mib")),
                driver=agent.attributes.get("gpu_driver"),
                condition=str(gpu.get("condition", "unknown")),
                reason=_words(gpu.get("reason")),
                task=task,
                app=None if task is None else (apps or {}).get(task) or app_of(task) or frameworks.get(task) or None,
                door=_words(gpu.get("door")),
                lessee=_words(gpu.get("holder")),
                lease=_words(gpu.get("lease_id")),
                memory_level=_words(gpu.get("memory_level")),
                sharers=tuple(_called(one, apps or {}) for one in gpu.get("sharers", [])),
                shares=tuple(
                    (str(one.get("task_id", "")), int(one.get("memory_mib", 0)), str(one.get("memory_level", "")))
                    for one in gpu.get("sharers", [])
                ),
                memory_used_mib=_whole(gpu.get("memory_used_mib")),
                utilization_percent=_whole(gpu.get("utilization_percent")),
                power_w=gpu.get("power_w"),
                temperature_c=_whole(gpu.get("temperature_c")),
                nvlink=peers(linked, _whole(gpu.get("index"))),
            )
        )
    return sorted(lines, key=lambda line: (line.index is None, line.index or 0, line.uuid or ""))


def _called(sharer: Mapping[str, Any], apps: Mapping[str, str]) -> str:
    """Return who has a part of a card, in a word."""
    task = str(sharer.get("task_id", ""))
    return apps.get(task) or app_of(task) or task or f"container {sharer.get('container_id')}"


def _counted(agent: Agent, called: str, tasks: Sequence[Mapping[str, Any]], apps: Mapping[str, str]) -> list[GpuLine]:
    """One line for each GPU that the agent offers: those of its tasks first, then the free ones."""
    memory = agent.attributes.get("gpu_memory_mib", "")
    held: list[tuple[str, str | None]] = []
    for task in tasks:
        name = str(task.get("id"))
        app = apps.get(name) or app_of(name) or task.get("framework_name") or None
        held += [(name, app)] * int((task.get("resources") or {}).get("gpus", 0))
    blank = GpuLine(
        called,
        agent.id,
        model=agent.attributes.get(_MODEL),
        memory_mib=int(memory) if memory.isdigit() else None,
        driver=agent.attributes.get("gpu_driver"),
    )
    lines = [replace(blank, task=name, app=app) for name, app in held]
    return lines + [blank] * max(0, agent.gpus - len(lines))


def indices(lines: Sequence[GpuLine]) -> str:
    """Return which GPUs these are on their agent, `0,2`; MIG instances, which share an index, by uuid.

    Those of an agent that does not tell which they are, are left out.
    """
    lines = [line for line in lines if line.index is not None or line.uuid is not None]
    several = len({line.index for line in lines}) < len(lines)
    return ",".join(str(line.uuid if several or line.index is None else line.index) for line in lines)


def untold(called: Sequence[str]) -> str:
    """Return what is to be said of agents that do not show their GPUs, as Mesos' own do not."""
    names, do = ", ".join(called[:3]) + (", ..." if len(called) > 3 else ""), "do" if len(called) > 1 else "does"
    own = "agents of Mesos' own do not"
    return f"{names} {do} not show GPUs one by one ({own}): how many there are and who has some is known, not which"


def group_of(task_id: str) -> str:
    """Return what holds GPUs as one: a pod's instance, whose tasks share them, or the task itself."""
    return instance_of(task_id) or task_id


def pod_gpus(pod: Mapping[str, Any]) -> int:
    """Return how many GPUs each instance of a pod has; its containers share them."""
    containers = pod.get("containers") or []
    each = [(container.get("resources") or {}).get("gpus") or 0 for container in containers]
    return int(sum(each) + ((pod.get("executorResources") or {}).get("gpus") or 0))


def by_agent(lines: Iterable[GpuLine]) -> str:
    """Return which GPUs these are, agent by agent: `0,1@host1 3@host2`."""
    found: dict[str, list[GpuLine]] = {}
    for line in lines:
        found.setdefault(line.agent, []).append(line)
    return " ".join(f"{indices(held)}@{agent}" for agent, held in sorted(found.items()))


@dataclass(frozen=True, slots=True)
class GpuType:
    """A kind of GPU in one zone, as GKE lists accelerator types."""

    name: str
    zone: str
    description: str
    memory_mib: int | None
    gpus: int
    free: int
    agents: int
    most_per_agent: int
    constraint: tuple[str, str, str] | None
    """What an app says to get this kind and no other; None where agents do not tell it, or have several kinds."""

    def document(self) -> dict[str, Any]:
        """Return it for programs, with the names of Google's acceleratorTypes where it has them."""
        return {
            "name": self.name,
            "zone": self.zone,
            "description": self.description,
            "maximumCardsPerInstance": self.most_per_agent,
            "memoryMib": self.memory_mib,
            "gpus": self.gpus,
            "free": self.free,
            "agents": self.agents,
            "constraint": None if self.constraint is None else list(self.constraint),
        }


def gpu_types(agents: Sequence[Agent], lines: Sequence[GpuLine]) -> list[GpuType]:
    """Return the kinds of GPUs, by name and zone. A GPU that is not healthy counts, and is not free."""
    by_id = {agent.id: agent for agent in agents}
    groups: dict[tuple[str, str, str], list[GpuLine]] = {}
    for line in lines:
        agent = by_id[line.agent_id]
        said = _said_model(agent) or line.model or "GPU"
        groups.setdefault((slug(said), agent.zone or "-", said), []).append(line)
    found = []
    for (name, zone, said), members in sorted(groups.items()):
        per_agent = [sum(line.agent_id == one for line in members) for one in {line.agent_id for line in members}]
        memory = [line.memory_mib for line in members if line.memory_mib is not None]
        asked = said if all(_said_model(by_id[line.agent_id]) == said for line in members) else None
        found.append(
            GpuType(
                name=name,
                zone=zone,
                description=", ".join(sorted({line.model or said for line in members})),
                memory_mib=min(memory) if memory else None,
                gpus=len(members),
                free=sum(not line.held and line.condition in ("healthy", "suspect", "unknown") for line in members),
                agents=len(per_agent),
                most_per_agent=max(per_agent),
                constraint=None if asked is None else model_constraint(asked),
            )
        )
    return found


def model_constraint(model: str) -> tuple[str, str, str]:
    """Return the constraint that only agents with this `gpu_model` fulfil."""
    # What IS may be compared with is all that our agents put into gpu_model; operators may have said other things.
    if re.fullmatch(r"[a-zA-Z0-9_/.-]+", model):
        return _MODEL, "IS", model
    return _MODEL, "LIKE", re.escape(model)


def _said_model(agent: Agent) -> str | None:
    """Return the model that constraints can ask the agent's GPUs by; None when it has several kinds or does not say."""
    model = agent.attributes.get(_MODEL, "")
    return model if model and "/" not in model else None


def slug(model: str) -> str:
    """Return a model's name as GKE writes them: `nvidia-h200` of `NVIDIA H200`."""
    return re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-") or "gpu"


def busiest(lines: Iterable[GpuLine]) -> list[GpuLine]:
    """Return GPUs with the busiest first; those that tell nothing last, else by agent and index."""
    return sorted(
        lines,
        key=lambda line: (
            -(line.utilization_percent if line.utilization_percent is not None else -1),
            -(line.memory_used_mib or 0),
            line.agent,
            line.index or 0,
        ),
    )


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _words(value: Any) -> str | None:
    return str(value) if value else None


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
