"""Gathers what `why` is decided from: Marathon's queue, the agents, who holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marathon_cli.clients.agents import SCALARS, Agent, names
from marathon_cli.clients.cluster import Cluster, owners
from marathon_cli.placement.judge import Holder, Verdict, judge, task_at
from marathon_cli.placement.situation import Situation
from marathon_cli.placement.wish import Wish, wish_of
from mesos_gpu.errors import MesosGpuError, NotFound, Refused
from mesos_gpu.marathon.model.task_ids import app_of

if TYPE_CHECKING:
    from marathon_cli.clients.client import Marathon
    from mesos_gpu.marathon.model.instances import Task

_ASKED = 40
"""How many agents are asked who holds what, when more could run the app."""


def inquire(marathon: Marathon, app_id: str, say: Callable[[str], None]) -> Situation:
    """Return all that is known of an app or pod. Raises NotFound when there is none; says which agents are silent."""
    queued = next((item for item in marathon.queue(last_offers=True) if _id(item) == app_id), None)
    document = _document(marathon, app_id, queued)
    wish = wish_of(document)
    tasks = document.get("tasks") or []
    deployments = marathon.deployments(blockers=True)
    actions = [action for deployment in deployments for action in deployment.get("currentActions") or []]
    situation: dict[str, Any] = {
        "upgrading": any(
            action.get("action") == "RestartApplication" and app_id in (action.get("app"), action.get("pod"))
            for action in actions
        ),
        "app": document,
        "wish": wish,
        "running": _running(document),
        "queued": queued,
        "blockers": [
            blocker
            for deployment in deployments
            for blocker in deployment.get("blockers") or []
            if blocker.get("app") == app_id
        ],
    }
    if queued is None:
        return Situation(**situation)
    info = marathon.info()
    features = (info.get("marathon_config") or {}).get("features")
    situation["takes_gpu_offers"] = features is None or "gpu_resources" in features
    try:
        cluster = Cluster.of(marathon)
        agents = cluster.agents()
    except MesosGpuError as error:
        say(f"the agents cannot be asked, so Marathon's word stands alone: {error}")
        return Situation(**situation, agents_known=False)
    try:
        verdicts, holders = _judged(cluster, marathon, wish, agents, _placed(document, tasks, agents), queued)
        roles = cluster.roles()
    finally:
        cluster.close()
    return Situation(**situation, agents=agents, verdicts=verdicts, holders=holders, roles=roles)


def _judged(
    cluster: Cluster,
    marathon: Marathon,
    wish: Wish,
    agents: Sequence[Agent],
    placed: Sequence[Task],
    queued: Mapping[str, Any],
) -> tuple[list[Verdict], dict[str, list[Holder]]]:
    """Judge every agent; those that could run it, and cannot now, are asked who holds what."""
    called = names(agents)
    reasons = {
        str((unused.get("offer") or {}).get("agentId")): unused.get("reason") or []
        for unused in queued.get("lastUnusedOffers") or []
    }
    # Whether GPUs are kept for those that use some is a flag that no Marathon shows; its reasons give it away.
    keeps = any("DeclinedScarceResources" in told for told in reasons.values())

    def one(agent: Agent, holders: Sequence[Holder] = ()) -> Verdict:
        return judge(wish, agent, called[agent.id], placed=placed, holders=holders, keeps_gpus=keeps)

    verdicts = {agent.id: one(agent) for agent in agents}
    full = [agent for agent in agents if verdicts[agent.id].ever and not verdicts[agent.id].now][:_ASKED]
    holders: dict[str, list[Holder]] = {}
    if full:
        apps = owners(marathon.tasks())
        for agent_id, tasks in cluster.tasks(full).items():
            holders[agent_id] = holders_of(tasks, apps)
        for agent in full:
            verdicts[agent.id] = one(agent, holders[agent.id])
    return list(verdicts.values()), holders


def holders_of(tasks: Sequence[Mapping[str, Any]], apps: Mapping[str, str]) -> list[Holder]:
    """Return who has what of an agent, most GPUs first: apps of this Marathon, and other frameworks as a whole."""
    found: dict[tuple[str, bool], dict[str, float]] = {}
    for task in tasks:
        task_id = str(task.get("id"))
        name = apps.get(task_id) or app_of(task_id) or f"framework {task.get('framework_name') or '?'}"
        amounts = found.setdefault((name, task_id in apps and not _is_of_a_pod(task_id)), {})
        for name in SCALARS:
            amounts[name] = amounts.get(name, 0.0) + float((task.get("resources") or {}).get(name) or 0)
    holders = [Holder(name, amounts, is_app) for (name, is_app), amounts in found.items()]
    return sorted(holders, key=lambda holder: (-holder.amounts.get("gpus", 0), holder.name))


def _is_of_a_pod(task_id: str) -> bool:
    # An app's tasks are `....instance-UUID._app.1`, or of before 1.9 `....UUID`; a pod's name their container there.
    return ".instance-" in task_id and "._app" not in task_id and "$anon" not in task_id


def _document(marathon: Marathon, app_id: str, queued: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return an app with its tasks, or a pod as the queue or the Marathon shows it."""
    try:
        return marathon.app(app_id)
    except NotFound:
        try:
            status = marathon.pod(app_id)
        except (NotFound, Refused):
            status = {}
        spec = status.get("spec") or (queued or {}).get("pod")
        if not isinstance(spec, dict):
            raise
        return {**spec, "podInstances": status.get("instances") or []}


def _running(document: Mapping[str, Any]) -> int:
    if "podInstances" in document:
        return sum(instance.get("status") == "STABLE" for instance in document["podInstances"])
    return int(document.get("tasksRunning") or 0)


def _placed(document: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], agents: Sequence[Agent]) -> list[Task]:
    """Return the tasks that constraints count: those of the present configuration, oldest first."""
    since = str((document.get("versionInfo") or {}).get("lastConfigChangeAt") or "")
    by_id = {agent.id: agent for agent in agents}
    mine = [task for task in tasks if str(task.get("version") or "") >= since]
    ordered = sorted(mine, key=lambda task: str(task.get("stagedAt") or ""))
    return [task_at(by_id.get(str(t.get("slaveId"))), str(t.get("host")), float(i)) for i, t in enumerate(ordered)]


def _id(item: Mapping[str, Any]) -> str:
    return str((item.get("app") or item.get("pod") or {}).get("id"))
