"""Gathers what `why` is decided from: Marathon's queue, the agents, who holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from marathon_cli.clients.marathon import Jobs, smallest_change
from marathon_cli.clients.mesos import Cluster, owners
from mesos_gpu.errors import MesosGpuError, NotFound, Refused
from mesos_gpu.marathon.why.facts import Judging, Situation, of_app
from mesos_gpu.marathon.why.failure import pod_document
from mesos_gpu.marathon.why.request import Request, request_of, rules_shown

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon
    from mesos_gpu.marathon.matching.machines import Machine


def inquire(marathon: Marathon, app_id: str, say: Callable[[str], None]) -> Situation:
    """Return all that is known of an app or pod. Raises NotFound when there is none; says which agents are silent."""
    queued = next((item for item in marathon.queue(last_offers=True) if _id(item) == app_id), None)
    document = _document(marathon, app_id, queued)
    deployments = marathon.deployments(blockers=True)
    if changed := [one for one in deployments if app_id in (one.get("affectedPods") or ())]:
        document = {**document, "deployments": changed}  # apps are shown with theirs
    request = request_of(document)
    if queued is None and request.spec.gpus > 1 and not request.spec.is_pod:
        document = {**document, "tasks": marathon.tasks_with_cards(app_id)}
    situation = of_app(document, request, queued, deployments)
    situation["now"] = datetime.now(timezone.utc)
    if queued is None:
        return Situation(**situation, agents=_sharing(marathon, request))
    config = marathon.info().get("marathon_config") or {}
    features = config.get("features")
    situation["takes_gpu_offers"] = features is None or "gpu_resources" in features
    return _around(marathon, situation, config, say, ordered=app_id if "order" in queued else None)


def inquire_job(marathon: Marathon, job: Mapping[str, Any], say: Callable[[str], None]) -> Situation | None:
    """Return all that is known of a job's runs that wait for an offer; None where none does."""
    from mesos_gpu.marathon.why.of_jobs import request_of_run, run_document

    waiting = Jobs(marathon).waiting().get(str(job.get("id")), 0)
    if not waiting:
        return None
    config = marathon.info().get("marathon_config") or {}
    document = run_document(job, config.get("mesos_role"))
    queued = {"count": waiting, "delay": {"timeLeftSeconds": 0}}
    situation = {
        "app": document,
        "request": request_of_run(document),
        "queued": queued,
        "now": datetime.now(timezone.utc),
    }
    return _around(marathon, situation, config, say, ordered=None)


def _around(
    marathon: Marathon,
    situation: dict[str, Any],
    config: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    ordered: str | None,
) -> Situation:
    """Return a Situation with what the agents and the master say; `ordered` is the app if it waits in order."""
    try:
        cluster = Cluster(marathon.mesos())
        agents = cluster.machines()
    except MesosGpuError as error:
        say(f"the agents cannot be asked, so only Marathon's view is shown: {error}")
        return Situation(**situation, agents_known=False)
    try:
        rules = rules_shown(config, situation["queued"])
        judging = Judging.of(situation["app"], situation["request"], rules, agents)
        if full := judging.full():
            apps = owners(marathon.tasks())
            on_agents = cluster.tasks(full)
            for agent in full:
                judging.hold(agent, on_agents[agent.id], apps)
        roles = cluster.roles()
    finally:
        cluster.close()
    change = smallest_change(marathon, ordered) if ordered is not None else None
    return Situation(**situation, **judging.fields(), roles=roles, ordered_change=change)


def _sharing(marathon: Marathon, request: Request) -> Sequence[Machine]:
    """Return the agents, where they tell what keeps an app to its part of a GPU; none for an app without one."""
    if request.spec.largest_share is None:
        return ()
    try:
        cluster = Cluster(marathon.mesos())
    except MesosGpuError:
        return ()
    try:
        return cluster.machines()
    except MesosGpuError:
        return ()
    finally:
        cluster.close()


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
        return pod_document(spec, status)


def _id(item: Mapping[str, Any]) -> str:
    return str((item.get("app") or item.get("pod") or {}).get("id"))
