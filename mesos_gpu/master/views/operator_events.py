"""What operators who subscribed are told: agents, frameworks and tasks that come, change and go. Values to values.

Source: Mesos src/common/protobuf_utils.cpp, namespace master::event, and the recorded stream of a 1.12 master.
"""

from __future__ import annotations

from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.state.unversioned import all_tasks
from mesos_gpu.master.views import views_v1
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer

HEARTBEAT: Document = {"type": "HEARTBEAT"}


def subscribed(state: MasterState, viewer: Viewer = EVERYBODY) -> list[Document]:
    """Return the first events of a subscription: all there is now that `viewer` may see, and a heartbeat."""
    body = {
        "get_state": views_v1.get_state(state, viewer),
        "heartbeat_interval_seconds": state.settings.heartbeat_interval_s,
    }
    return [{"type": "SUBSCRIBED", "subscribed": body}, HEARTBEAT]


def take(state: MasterState) -> list[Document]:
    """Return what has happened since the last call, as events in order."""
    happened, state.news = state.news, []
    return [{"type": news.kind, news.kind.lower(): _body(state, news.kind, news.subject)} for news in happened]


def seen(state: MasterState, event: Document, viewer: Viewer) -> Document | None:
    """Return an event as `viewer` may see it; None when it may not.

    Source: Mesos src/master/master.cpp, Subscribers::Subscriber::send.
    """
    if viewer.sees_all:
        return event
    kind = event["type"]
    body = event.get(kind.lower(), {})
    match kind:
        case "TASK_ADDED":
            task = body["task"]
            return event if _sees_task(state, viewer, task["framework_id"]["value"], task.get("user")) else None
        case "TASK_UPDATED":
            return event if _sees_update(state, viewer, body) else None
        case "FRAMEWORK_REMOVED":
            return event if viewer.framework(body["framework_info"]) else None
        case "FRAMEWORK_ADDED" | "FRAMEWORK_UPDATED":
            framework = body["framework"]
            if not viewer.framework(framework["framework_info"]):
                return None
            return {"type": kind, kind.lower(): {"framework": _without_hidden(framework, viewer)}}
        case "AGENT_ADDED":
            return {"type": kind, kind.lower(): {"agent": _without_hidden(body["agent"], viewer)}}
    return event


def _sees_task(state: MasterState, viewer: Viewer, framework_id: FrameworkId, user: str | None) -> bool:
    framework = state.frameworks.get(framework_id) or state.completed.get(framework_id)
    return framework is not None and viewer.framework(framework.info) and viewer.task(user, framework.info)


def _sees_update(state: MasterState, viewer: Viewer, body: Document) -> bool:
    framework_id, task_id = body["framework_id"]["value"], body["status"]["task_id"]["value"]
    framework = state.frameworks.get(framework_id) or state.completed.get(framework_id)
    tasks = [] if framework is None else all_tasks(framework)
    users = {task.document.get("user") for task in tasks if task.id == task_id}
    # Of a task that nobody knows any more it is not known whose it was.
    return bool(users) and all(_sees_task(state, viewer, framework_id, user) for user in users)


def _without_hidden(shown: Document, viewer: Viewer) -> Document:
    """Return an agent or a framework without resources of roles that `viewer` may not see."""
    lists = [name for name in shown if name.endswith("_resources")]
    left = {**shown, **{name: views_v1.visible(viewer, shown[name]) for name in lists}}
    if "resources" in shown.get("agent_info", {}):
        info = shown["agent_info"]
        left["agent_info"] = {**info, "resources": views_v1.visible(viewer, info["resources"])}
    return left


def _body(state: MasterState, kind: str, subject: Agent | Framework | Document) -> Document:
    match kind, subject:
        case "AGENT_ADDED", Agent() as agent:
            return {"agent": views_v1.agent_view(agent)}
        case "AGENT_REMOVED", Agent() as agent:
            return {"agent_id": {"value": agent.id}}
        case "FRAMEWORK_REMOVED", Framework() as framework:
            return {"framework_info": with_defaults("mesos.v1.FrameworkInfo", framework.info)}
        case _, Framework() as framework:
            return {"framework": views_v1.framework_news(state, framework)}
        case "TASK_ADDED" | "TASK_UPDATED", dict() as document:
            return document
        case _:
            raise ValueError(f"no operator event {kind} of {type(subject).__name__}")
