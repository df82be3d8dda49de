"""What operators who subscribed are told: agents, frameworks and tasks that come, change and go. Values to values.

Source: Mesos src/common/protobuf_utils.cpp, namespace master::event, and the recorded stream of a 1.12 master.
"""

from __future__ import annotations

from mesos_gpu.master import views_v1
from mesos_gpu.master.model import Agent, Framework
from mesos_gpu.master.state import MasterState
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document

HEARTBEAT: Document = {"type": "HEARTBEAT"}


def subscribed(state: MasterState) -> list[Document]:
    """Return the first events of a subscription: all there is now, and a heartbeat."""
    body = {
        "get_state": views_v1.get_state(state),
        "heartbeat_interval_seconds": state.settings.heartbeat_interval_s,
    }
    return [{"type": "SUBSCRIBED", "subscribed": body}, HEARTBEAT]


def take(state: MasterState) -> list[Document]:
    """Return what has happened since the last call, as events in order."""
    happened, state.news = state.news, []
    return [{"type": news.kind, news.kind.lower(): _body(state, news.kind, news.subject)} for news in happened]


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
