"""Values that the tests of the master's rules begin with, and what they look at."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from mesos_gpu.master.allocation.eligibility import (
    Client,
    Rules,
)
from mesos_gpu.master.configuration import min_allocatable
from mesos_gpu.master.decisions import agents, invariants, launching, offering, subscriptions
from mesos_gpu.master.decisions.handle import decide
from mesos_gpu.master.model.model import Agent, Framework, Offer
from mesos_gpu.master.model.report import Report
from mesos_gpu.master.state.actions import Action, SendEvent, Store
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.views import master_info
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from tests.support import places

MASTER_ID = "11111111-2222-3333-4444-555555555555"
SHARED_VOLUME = Resource.from_json(
    {
        "name": "disk",
        "type": "SCALAR",
        "scalar": {"value": 64},
        "reservations": [{"role": "ml", "type": "DYNAMIC"}],
        "disk": {"persistence": {"id": "v"}, "volume": {"container_path": "v", "mode": "RW"}},
        "shared": {},
    }
)
RULES = Rules(excluded_names=frozenset({"gpus"}), min_allocatable=min_allocatable("cpus:0.01|mem:32|gpus:1"))
NOW = Moment(100.0, 1_795_256_500.0)
GPU_AGENT = "cpus:2;gpus:4;mem:2048;disk:1000;ports:[31000-32000]"
CAPABILITIES = ("MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT", "TASK_RESOURCE_LIMITS")
UUID = "A7QnFBs4R1ejR5TzhHNOYA=="
OTHER_UUID = "v0G8fQ3UQTWlVmX1PbUoWA=="
THIRD_UUID = "b5YZ/4uGQBG0LQDAT8lk/w=="


@cache
def recorded() -> Any:
    """What a real master of 1.12.0 answered."""
    return json.loads((places.RECORDED / "master.json").read_text())


@cache
def refused() -> Any:
    """How a genuine master of 1.11.0 refuses tasks, groups and operations."""
    return json.loads((places.RECORDED / "refused-1.11.0.json").read_text())


def later(seconds: float) -> Moment:
    return Moment(NOW.mono_s + seconds, NOW.wall_s + seconds)


def new_state(rules: Rules = RULES) -> MasterState:
    info = master_info(MASTER_ID, "127.0.0.1", "1.12.0", Pid("master", "127.0.0.1", 5050))
    return MasterState(info, Settings(rules), NOW)


def report(resources: str = GPU_AGENT, *, port: int = 5051, hostname: str = "127.0.0.1", **more: Any) -> Report:
    info = {"hostname": hostname, "port": port, "resources": Resources.parse(resources).to_json()}
    info |= {"id": {"value": more.pop("agent_id")}} if "agent_id" in more else {}
    return Report(
        pid=f"slave(1)@127.0.0.1:{port}",
        info=info,
        version=more.pop("version", "1.12.0"),
        capabilities=more.pop("capabilities", CAPABILITIES),
        checkpoint=True,
        resource_version_uuid=more.pop("resource_version_uuid", UUID),
        **more,
    )


def add_agent(state: MasterState, resources: str = GPU_AGENT, *, port: int = 5051, now: Moment = NOW) -> Agent:
    before = set(state.agents)
    for action in agents.register(state, report(resources, port=port)):
        if isinstance(action, Store):
            decide(state, action.then, now)
    return next(agent for agent_id, agent in state.agents.items() if agent_id not in before)


def framework_info(name: str = "test", *, capabilities: str = "GPU_RESOURCES", **more: Any) -> Document:
    named = [{"type": capability} for capability in capabilities.split()]
    return {"user": "root", "name": name, "checkpoint": True, "failover_timeout": 30.0, "capabilities": named, **more}


def add_framework(state: MasterState, name: str = "test", *, now: Moment = NOW, **info: Any) -> Framework:
    subscriptions.subscribe(state, f"stream-{name}", {"framework_info": framework_info(name, **info)}, now)
    return next(framework for framework in state.frameworks.values() if framework.name == name)


def offers(state: MasterState, now: Moment = NOW) -> list[Offer]:
    """Allocate, and return all offers that are out."""
    offering.offer_resources(state, now)
    return [offer for agent in state.agents.values() for offer in agent.offers.values()]


def resources_of(text: str) -> list[Document]:
    return Resources.parse(text).to_json()


def task_info(agent: Agent, task_id: str = "t", resources: str = "cpus:0.1;mem:32;gpus:1", **more: Any) -> Document:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": {"value": agent.id},
        "resources": resources_of(resources),
        **({} if "executor" in more else {"command": {"value": "true"}}),
        **more,
    }


def launch(
    state: MasterState, offer: Offer, *tasks: Document, refuse_s: float = 0.1, now: Moment = NOW
) -> list[Action]:
    """ACCEPT one offer with one LAUNCH."""
    operation = {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}
    body = {"offer_ids": [{"value": offer.id}], "operations": [operation], "filters": {"refuse_seconds": refuse_s}}
    return launching.accept(state, state.frameworks[offer.framework_id], body, now)


def status(agent: Agent, task_id: str, state: str, uuid: str = UUID, **more: Any) -> Document:
    return {
        "task_id": {"value": task_id},
        "state": state,
        "source": "SOURCE_EXECUTOR",
        "agent_id": {"value": agent.id},
        "executor_id": {"value": task_id},
        "timestamp": NOW.wall_s,
        "uuid": uuid,
        **more,
    }


def events(actions: list[Action], kind: str | None = None) -> list[Document]:
    """The bodies of the events among actions, of one type or whole."""
    found = [action.event for action in actions if isinstance(action, SendEvent)]
    return found if kind is None else [event[kind.lower()] for event in found if event["type"] == kind]


def statuses(actions: list[Action]) -> list[Document]:
    return [event["status"] for event in events(actions, "UPDATE")]


def check_books(state: MasterState) -> None:
    """On every agent what is free, offered and used adds up to all there is; nothing is booked twice or for nobody."""
    assert invariants.broken(state) is None


def never(client: Client, agent_id: str, candidate: Resources) -> bool:
    return False
