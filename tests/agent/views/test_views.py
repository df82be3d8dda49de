"""What /state and the v1 API show of an agent in the middle of its work: both from one history."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Resize
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.agent.views import state_json, views_v1
from mesos_gpu.agent.views.pods import PodShown, pods_shown
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.security.authorization import Principal, read_acls
from mesos_gpu.mesos.security.viewing import Viewer
from tests.support.agent.documents import (
    AGENT_ID,
    ALL_CAPABILITIES,
    FRAMEWORK_ID,
    at,
    framework,
    key,
    new_state,
    run,
    scalar,
    task,
)
from tests.support.agent.hosting import ECHO, hosted, says

LABELS = {"labels": [{"key": "team", "value": "vision"}]}
DISCOVERY = {"visibility": "CLUSTER", "name": "web"}
INFO = framework(*ALL_CAPABILITIES, roles=["ml"], principal="ops")
VIEWED = ("launched_tasks", "queued_tasks", "pending_tasks", "terminated_tasks", "completed_tasks")


def wanted(task_id: str, **more: Any) -> dict[str, Any]:
    return {**task(task_id), "labels": LABELS, "discovery": DISCOVERY, **more}


def happens(state: AgentState, *events: ev.Event) -> None:
    """Take events in, and have the scheduler acknowledge all, and containers grow as they are asked to."""
    waiting = list(events)
    while waiting:
        for action in handle(state, waiting.pop(0), at(1.0)):
            if isinstance(action, Forward):
                waiting.append(ev.Acknowledged(action.key, action.status["uuid"]))
            elif isinstance(action, Resize):
                waiting.append(ev.Resized(action.key, action.container_id, action.round))


@pytest.fixture
def state() -> AgentState:
    """A command task that runs, one that starts, one that has ended; an executor with two tasks."""
    made = new_state()
    happens(made, ev.Registered())
    user = {"value": "true", "user": "nobody"}
    happens(made, run(wanted("runs", command=user), info=INFO), ev.Launched(key("runs"), 7))
    happens(made, run(wanted("ended"), info=INFO), ev.Launched(key("ended"), 8))
    happens(made, ev.Ended(key("ended"), Termination(exit_code=0)))
    happens(made, run(wanted("starts"), info=INFO))
    first, second = ({**hosted(name), "labels": LABELS} for name in ("h1", "h2"))
    for one in (first, second):
        one["executor"] = {**one["executor"], "labels": LABELS, "name": "echo of tasks"}
    happens(made, run(first, info=INFO), ev.Launched(ECHO, 9), ev.Subscribed(ECHO))
    happens(made, says("h1", "TASK_RUNNING", healthy=True))
    handle(made, run(second, info=INFO), at(1.0))  # its executor has yet to grow for it
    return made


def names(tasks: list[dict[str, Any]]) -> list[str]:
    return [one.get("id") or one["task_id"]["value"] for one in tasks]


def shown_executors(state: AgentState, viewer: Viewer | None = None) -> dict[str, dict[str, Any]]:
    [found] = state_json.frameworks_shown(state.frameworks.active.values(), *([] if viewer is None else [viewer]))
    return {one["id"]: one for one in (*found["executors"], *found["completed_executors"])}


def test_a_framework_is_shown_with_its_roles_and_who_it_is(state: AgentState) -> None:
    [found] = state_json.frameworks_shown(state.frameworks.active.values())
    assert {name: found[name] for name in ("id", "name", "user", "principal", "roles", "checkpoint")} == {
        "id": FRAMEWORK_ID,
        "name": "test",
        "user": "root",
        "principal": "ops",
        "roles": ["ml"],
        "checkpoint": True,
    }
    assert [one["id"] for one in found["completed_executors"]] == ["ended"]


def test_a_framework_of_one_role_is_shown_with_that(state: AgentState) -> None:
    happens(state, run(task("t"), info=framework(framework_id="F2", role="web")))
    shown = {one["id"]: one for one in state_json.frameworks_shown(state.frameworks.active.values())}
    assert shown["F2"]["role"] == "web"
    assert "roles" not in shown["F2"]
    assert "principal" not in shown["F2"]


def test_each_task_stands_where_it_is_in_its_life(state: AgentState) -> None:
    shown = shown_executors(state)
    places = {
        name: {place: names(one[place]) for place in ("tasks", "queued_tasks", "completed_tasks") if one[place]}
        for name, one in shown.items()
    }
    assert places == {
        "runs": {"tasks": ["runs"]},
        "starts": {"tasks": ["starts"]},
        "ended": {"completed_tasks": ["ended"]},
        "echo": {"tasks": ["h1"], "queued_tasks": ["h2"]},
    }
    listed = {place: sorted(names(tasks)) for place, tasks in views_v1.get_tasks(state).items()}
    assert listed == {
        "launched_tasks": ["h1", "runs", "starts"],
        "queued_tasks": ["h2"],
        "pending_tasks": [],
        "terminated_tasks": [],
        "completed_tasks": ["ended"],
    }


def test_a_task_is_shown_with_what_it_asked_for_and_what_was_said_of_it(state: AgentState) -> None:
    [shown] = shown_executors(state)["runs"]["tasks"]
    assert (shown["user"], shown["labels"], shown["discovery"]) == ("nobody", LABELS["labels"], DISCOVERY)
    assert (shown["slave_id"], shown["executor_id"], shown["resources"]["cpus"]) == (AGENT_ID, "", 0.5)
    assert [status["state"] for status in shown["statuses"]] == ["TASK_STARTING", "TASK_RUNNING"]
    container = shown["statuses"][-1]["container_status"]
    assert container["executor_pid"] == 7 if "executor_pid" in container else container["container_id"]
    [h1] = shown_executors(state)["echo"]["tasks"]
    assert (h1["executor_id"], h1["statuses"][-1]["healthy"]) == ("echo", True)


def test_executors_are_those_of_frameworks_and_those_made_up_for_commands(state: AgentState) -> None:
    shown = shown_executors(state)
    assert {name: one.get("type") for name, one in shown.items()} == {
        "runs": None,
        "starts": None,
        "ended": None,
        "echo": "CUSTOM",
    }
    assert (shown["echo"]["name"], shown["echo"]["labels"]) == ("echo of tasks", LABELS["labels"])
    assert shown["ended"]["resources"]["cpus"] == 0.1, "the task's own part is free again"
    assert shown["runs"]["resources"]["cpus"] == 0.6
    answer = views_v1.get_executors(state)
    infos = [one["executor_info"] for one in answer["executors"]]
    assert sorted(info["executor_id"]["value"] for info in infos) == ["echo", "runs", "starts"]
    made_up = next(info for info in infos if info["executor_id"]["value"] == "runs")
    assert (made_up["command"]["value"], made_up["labels"]) == ("mesos-executor", LABELS)
    [past] = answer["completed_executors"]
    assert past["executor_info"]["executor_id"] == {"value": "ended"}


def test_an_executor_line_names_whose_container_it_is(state: AgentState) -> None:
    [framework] = state.frameworks.active.values()
    own = state_json.executor_line(framework.tasks[key("runs").task])
    assert own == {
        "executor_id": "runs",
        "executor_name": "Command Executor (Task: runs) (Command: sh -c 'true')",
        "framework_id": FRAMEWORK_ID,
        "source": "runs",
    }
    theirs = state_json.executor_line(framework.executors[ECHO.executor])
    assert (theirs["executor_id"], theirs["executor_name"], theirs["source"]) == ("echo", "echo of tasks", "")


def test_a_task_that_never_had_a_container_has_no_executor(state: AgentState) -> None:
    happens(state, run(task("docker", container={"type": "DOCKER"}), info=INFO))
    assert "docker" not in shown_executors(state)
    assert "docker" not in str(views_v1.get_executors(state))


def test_who_may_not_see_tasks_sees_executors_without_them(state: AgentState) -> None:
    nobody = '{"view_tasks": [{"principals": {"values": ["eve"]}, "users": {"type": "NONE"}}]}'
    eve = Viewer(read_acls("acls", nobody), Principal("eve"))
    shown = shown_executors(state, eve)
    places = ("tasks", "queued_tasks", "completed_tasks")
    assert not any(one[place] for one in shown.values() for place in places)
    assert sorted(shown) == ["echo", "ended", "runs", "starts"]
    assert views_v1.get_tasks(state, eve) == {place: [] for place in VIEWED}


def test_the_state_is_its_parts_in_one_answer(state: AgentState) -> None:
    assert views_v1.get_state(state) == {
        "get_tasks": views_v1.get_tasks(state),
        "get_executors": views_v1.get_executors(state),
        "get_frameworks": views_v1.get_frameworks(state),
    }


def test_operations_on_resources_of_roles_that_somebody_may_not_see_are_left_out() -> None:
    def operation(kind: str, field: str, *roles: str) -> dict[str, Any]:
        resources = [{**scalar("cpus", 1, role), "reservations": [{"type": "DYNAMIC", "role": role}]} for role in roles]
        body: Any = resources[0] if field == "volume" else resources
        return {"info": {"type": kind, kind.lower(): {field: body}}}

    seen = [operation("RESERVE", "resources", "ml"), operation("GROW_VOLUME", "volume", "ml")]
    hidden = [operation("RESERVE", "resources", "ml", "hr"), operation("DESTROY", "volumes", "hr")]
    only_ml = (
        '{"view_roles": [{"principals": {"values": ["eve"]}, "roles": {"values": ["ml"]}}, '
        '{"principals": {"values": ["eve"]}, "roles": {"type": "NONE"}}]}'
    )
    eve = Viewer(read_acls("acls", only_ml), Principal("eve"))
    assert views_v1.get_operations([*seen, *hidden], eve) == {"operations": seen}
    assert views_v1.get_operations(hidden, eve) == {}
    assert views_v1.get_operations([*seen, *hidden]) == {"operations": [*seen, *hidden]}


def test_an_agent_has_an_id_once_a_master_gave_it_one() -> None:
    info = {"hostname": "h", "resources": [{**scalar("cpus", 2), "role": "ml"}], "port": 5051}
    assert "id" not in views_v1.get_agent(info, None)["agent_info"]
    shown = views_v1.get_agent(info, AGENT_ID)["agent_info"]
    assert shown["id"] == {"value": AGENT_ID}
    assert shown["resources"][0]["reservations"] == [{"type": "STATIC", "role": "ml"}]


class Named:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Frameworks:
    """Two executors, one of which has ended, a task of the other, and two tasks of their own."""

    def executors(self) -> list[Any]:
        key = Named(executor="e", framework="f")
        ended = Named(key=key, container_id="gone", over=True)
        return [Named(key=key, container_id=ContainerId("ce"), over=False), ended]

    def tasks(self) -> list[Any]:
        def task(name: str, container: str | None, hosted: bool = False) -> Any:
            key = Named(task=name, framework="f")
            return Named(key=key, info={"name": f"the {name}"}, container_id=container, hosted=hosted)

        return [task("b", "cb"), task("a", "ca"), task("in-e", "ce", hosted=True), task("never", None)]


def test_tasks_and_executors_are_pods_with_what_their_container_holds() -> None:
    held = {ContainerId("ca"): {"x/y": ["2", "1"], "nvidia.com/gpu": []}, ContainerId("ce"): {"nvidia.com/gpu": ["u"]}}
    frameworks: Any = Frameworks()
    assert pods_shown(frameworks, held) == (
        PodShown("a", "f", "the a", {"x/y": ("1", "2")}),
        PodShown("b", "f", "the b", {}),
        PodShown("e", "f", "executor", {"nvidia.com/gpu": ("u",)}),
    )
