"""What `why` is decided from, read from what servers answer to the CLI or to a Marathon. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.marathon.why.change import Change, Held
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.verdict import Holder, Verdict, task_at, verdict_of
from mesos_gpu.mesos.clients.agents import SCALARS
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM

ASKED = 40
"""How many agents are asked who holds what, when more could run the app."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of an app: its own document, its place in the queue, and what is around it."""

    app: Mapping[str, Any]
    request: Request
    running: int = 0
    queued: Mapping[str, Any] | None = None
    """Its entry of /v2/queue; None when it does not wait."""
    agents: Sequence[Machine] = ()
    verdicts: Sequence[Verdict] = ()
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    """Which task holds what of an agent, by agent id."""
    placed: Sequence[Task] = ()
    """Its instances, as constraints count them."""
    rules: Rules = field(default_factory=Rules)
    """How this Marathon matches offers."""
    roles: Sequence[Mapping[str, Any]] = ()
    """The master's /roles."""
    blockers: Sequence[Mapping[str, Any]] = ()
    """Of its deployments (docs/do/marathon.md)."""
    upgrading: bool = False
    """Whether a deployment is replacing its instances."""
    takes_gpu_offers: bool = True
    """Whether this Marathon has the feature gpu_resources."""
    agents_known: bool = True
    """Whether the master could be asked."""
    ordered_change: Change | None = None
    """Of an app that waits in order: the smallest change that would start it, where its Marathon has found one."""
    now: datetime | None = None
    """When this was so; None where nobody tells: failures are then taken for recent ones."""


def of_app(
    document: Mapping[str, Any],
    request: Request,
    queued: Mapping[str, Any] | None,
    deployments: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what Marathon alone says of an app or pod, as the first fields of a Situation."""
    actions = [action for deployment in deployments for action in deployment.get("currentActions") or []]
    return {
        "upgrading": any(
            action.get("action") == "RestartApplication" and request.id in (action.get("app"), action.get("pod"))
            for action in actions
        ),
        "app": document,
        "request": request,
        "running": _running(document),
        "queued": queued,
        "blockers": [
            blocker
            for deployment in deployments
            for blocker in deployment.get("blockers") or []
            if blocker.get("app") == request.id
        ],
    }


@dataclass
class Judging:
    """The verdict on every agent; `full` are those to be asked who holds what they have."""

    request: Request
    agents: Sequence[Machine]
    placed: Sequence[Task]
    rules: Rules
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    held: dict[str, list[Held]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any], request: Request, rules: Rules, agents: Sequence[Machine]) -> Judging:
        """Judge all agents by what the master says of them."""
        made = cls(request, agents, _placed(document, document.get("tasks") or [], agents), rules)
        for agent in agents:
            made.verdicts[agent.id] = verdict_of(request, agent, rules, placed=made.placed)
        return made

    def full(self) -> list[Machine]:
        """Return agents that could run it, and cannot now."""
        verdicts = self.verdicts
        return [agent for agent in self.agents if verdicts[agent.id].ever and not verdicts[agent.id].now][:ASKED]

    def fields(self) -> dict[str, Any]:
        """Return what was found, as fields of a Situation."""
        return {
            "agents": self.agents,
            "verdicts": list(self.verdicts.values()),
            "held": self.held,
            "placed": self.placed,
            "rules": self.rules,
        }

    def hold(self, agent: Machine, tasks: Sequence[Mapping[str, Any]], apps: Mapping[str, str]) -> None:
        """Judge an agent again, by the tasks that are on it; `apps` are those of this Marathon, by task id."""
        held = self.held[agent.id] = held_by(tasks, apps)
        self.verdicts[agent.id] = verdict_of(
            self.request, agent, self.rules, placed=self.placed, holders=holders_of(held)
        )


def held_by(tasks: Sequence[Mapping[str, Any]], apps: Mapping[str, str]) -> list[Held]:
    """Return what each task on an agent holds, those of one instance of a pod together; amounts in thousandths."""
    found: dict[str, Held] = {}
    for task in tasks:
        task_id, resources = str(task.get("id")), task.get("resources") or {}
        of_pod = task_id in apps and _is_of_a_pod(task_id)
        key = task_id.rpartition(".")[0] if of_pod else task_id
        name = apps.get(task_id) or app_of(task_id) or f"framework {task.get('framework_name') or '?'}"
        known = found.get(key) or Held(key, name, {}, str(task.get("role") or "*"), task_id in apps and not of_pod)
        amounts = {scalar: known.amounts.get(scalar, 0) + milli(resources.get(scalar) or 0) for scalar in SCALARS}
        amounts[GPU_MEM] = known.amounts.get(GPU_MEM, 0) + 1000 * _numbers_in(str(resources.get(GPU_MEM) or ""))
        found[key] = replace(known, amounts=amounts)
    return list(found.values())


def holders_of(held: Sequence[Held]) -> list[Holder]:
    """Return who has what of an agent, most GPUs first: apps of this Marathon, and other frameworks as a whole."""
    found: dict[tuple[str, bool], Counter[str]] = {}
    for one in held:
        found.setdefault((one.owner, one.is_app), Counter()).update(one.amounts)
    holders = [Holder(name, dict(amounts), is_app) for (name, is_app), amounts in found.items()]
    return sorted(holders, key=lambda holder: (-holder.amounts.get("gpus", 0), holder.name))


def _numbers_in(ranges: str) -> int:
    """Return how many numbers ranges have, as agents write them: `[0-9, 12-15]`."""
    return sum(int(last) - int(first) + 1 for first, last in re.findall(r"(\d+)-(\d+)", ranges))


def _is_of_a_pod(task_id: str) -> bool:
    # An app's tasks are `....instance-UUID._app.1`, or of before 1.9 `....UUID`; a pod's name their container there.
    return ".instance-" in task_id and "._app" not in task_id and "$anon" not in task_id


def _running(document: Mapping[str, Any]) -> int:
    if "podInstances" in document:
        return sum(instance.get("status") == "STABLE" for instance in document["podInstances"])
    return int(document.get("tasksRunning") or 0)


def _placed(document: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], agents: Sequence[Machine]) -> list[Task]:
    """Return the tasks that constraints count: those of the present configuration, oldest first."""
    since = str((document.get("versionInfo") or {}).get("lastConfigChangeAt") or "")
    by_id = {agent.id: agent for agent in agents}
    mine = [task for task in tasks if str(task.get("version") or "") >= since]
    ordered = sorted(mine, key=lambda task: str(task.get("stagedAt") or ""))
    return [
        task_at(by_id.get(AgentId(str(t.get("slaveId")))), str(t.get("host")), float(i)) for i, t in enumerate(ordered)
    ]
