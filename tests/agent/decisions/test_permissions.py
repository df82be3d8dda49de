from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.agent.decisions import permissions
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.views import state_json, views_v1
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.security.authorization import OPEN, Acls, Principal, read_acls
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, at, framework, new_state, run, task
from tests.support.agent.hosting import hosted
from tests.support.golden import Golden

OPS, EVE = Principal("ops"), Principal("eve")
EXECUTOR = Principal(claims={"fid": FRAMEWORK_ID, "eid": "pod", "cid": "c0"})
ANY = {"type": "ANY"}


def acls(**lists: list[dict[str, Any]]) -> Acls:
    return read_acls("acls", json.dumps(lists))


def only(who: str, objects: str, *values: str) -> list[dict[str, Any]]:
    allowed = {"values": list(values)} if values else ANY
    return [{"principals": {"values": [who]}, objects: allowed}, {"principals": {"type": "NONE"}, objects: allowed}]


@pytest.fixture
def state() -> AgentState:
    """Alice's framework with a task of hers (c0) and one that runs as bob (c1)."""
    found = new_state()
    as_bob = task("of-bob", command={"value": "true", "user": "bob"})
    handle(found, run(task("of-alice"), as_bob, info=framework(*ALL_CAPABILITIES, user="alice")), at())
    return found


def container(*names: str) -> dict[str, Any]:
    found: dict[str, Any] = {"value": names[0]}
    for name in names[1:]:
        found = {"value": name, "parent": found}
    return found


CALLS: list[tuple[str, str, tuple[str, ...], dict[str, Any]]] = [
    ("launch_nested_containers_under_parent_with_user", "LAUNCH_NESTED_CONTAINER", ("c0", "n"), {}),
    ("launch_nested_containers_under_parent_with_user", "LAUNCH_CONTAINER", ("c0", "n"), {"command": {}}),
    ("launch_nested_containers_as_user", "LAUNCH_NESTED_CONTAINER", ("c1", "n"), {"command": {"user": "alice"}}),
    ("launch_nested_container_sessions_under_parent_with_user", "LAUNCH_NESTED_CONTAINER_SESSION", ("c0", "n"), {}),
    (
        "launch_nested_container_sessions_as_user",
        "LAUNCH_NESTED_CONTAINER_SESSION",
        ("c1", "n"),
        {"command": {"user": "alice"}},
    ),
    ("attach_containers_input", "ATTACH_CONTAINER_INPUT", ("c0",), {}),
    ("attach_containers_output", "ATTACH_CONTAINER_OUTPUT", ("c0", "n", "m"), {}),
    ("kill_nested_containers", "KILL_NESTED_CONTAINER", ("c0", "n"), {}),
    ("kill_nested_containers", "KILL_CONTAINER", ("c0", "n"), {}),
    ("wait_nested_containers", "WAIT_NESTED_CONTAINER", ("c0", "n"), {}),
    ("remove_nested_containers", "REMOVE_CONTAINER", ("c0", "n"), {}),
]


@pytest.mark.parametrize(("action", "kind", "names", "more"), CALLS)
def test_what_is_done_to_a_container_needs_leave_for_the_user_of_its_task(
    state: AgentState, action: str, kind: str, names: tuple[str, ...], more: dict[str, Any]
) -> None:
    body = {"container_id": container(*names), **more}
    alices = acls(**{action: only("ops", "users", "alice")})
    assert permissions.may(Viewer(alices, OPS), state.frameworks, kind, body)
    assert not permissions.may(Viewer(alices, EVE), state.frameworks, kind, body)
    assert not permissions.may(Viewer(alices, None), state.frameworks, kind, body)
    others = acls(**{action: only("ops", "users", "carol")})
    assert permissions.may(Viewer(others, EVE), state.frameworks, kind, body)
    assert permissions.may(EVERYBODY, state.frameworks, kind, body)


@pytest.mark.parametrize("verb", ["LAUNCH", "KILL", "WAIT", "REMOVE"])
def test_containers_of_no_task_have_lists_of_their_own(state: AgentState, verb: str) -> None:
    judged = acls(**{f"{verb.lower()}_standalone_containers": only("ops", "users")})
    body = {"container_id": container("alone"), "command": {"value": "true"}}
    assert permissions.may(Viewer(judged, OPS), state.frameworks, f"{verb}_CONTAINER", body)
    assert not permissions.may(Viewer(judged, EVE), state.frameworks, f"{verb}_CONTAINER", body)


@pytest.mark.parametrize(
    ("kind", "action", "objects"),
    [
        ("SET_LOGGING_LEVEL", "set_log_level", "level"),
        ("PRUNE_IMAGES", "prune_images", "images"),
        ("GET_FLAGS", "view_flags", "flags"),
    ],
)
def test_calls_about_the_agent_itself_need_leave(state: AgentState, kind: str, action: str, objects: str) -> None:
    judged = acls(**{action: only("ops", objects)})
    assert permissions.may(Viewer(judged, OPS), state.frameworks, kind, {})
    assert not permissions.may(Viewer(judged, EVE), state.frameworks, kind, {})


@pytest.mark.parametrize("judged", [acls(), OPEN], ids=["with ACLs", "without ACLs"])
def test_an_executor_does_what_it_must_below_its_own_container_and_nothing_else(
    state: AgentState, judged: Acls
) -> None:
    executor = Viewer(judged, EXECUTOR)
    for kind in ("LAUNCH_NESTED_CONTAINER", "WAIT_NESTED_CONTAINER", "KILL_NESTED_CONTAINER", "REMOVE_CONTAINER"):
        for root, may in (("c0", True), ("c1", False)):
            body = {"container_id": container(root, "n"), "command": {"value": "true", "user": "alice"}}
            assert permissions.may(executor, state.frameworks, kind, body) is may, (kind, root)
    assert not permissions.may(executor, state.frameworks, "KILL_CONTAINER", {"container_id": container("c0")})
    assert not permissions.may(executor, state.frameworks, "SET_LOGGING_LEVEL", {})
    assert views_v1.get_tasks(state, executor)["launched_tasks"] == []
    assert not permissions.sees_container(executor, state.frameworks, ContainerId("c0"))


def test_an_executor_launches_with_the_users_and_privileges_of_its_tasks(state: AgentState) -> None:
    """As a pod's executor does, whose containers have users and capabilities of their own."""
    seccomp = {"unconfined": True}
    linux_info = {"effective_capabilities": {"capabilities": ["NET_RAW", "CHOWN"]}, "seccomp": seccomp}
    of_carol = hosted("of-carol")
    of_carol["command"] = {"value": "true", "user": "carol"}
    of_carol["container"] = {"type": "MESOS", "linux_info": linux_info}
    handle(state, run(of_carol, info=framework(*ALL_CAPABILITIES, user="alice")), at())
    [executor] = state.frameworks.executors()
    viewer = Viewer(OPEN, Principal(claims={"cid": str(executor.container_id)}))

    def launches(user: str, **linux: Any) -> bool:
        body = {"container_id": container(str(executor.container_id), "n"), "command": {"value": "true", "user": user}}
        body["container"] = {"type": "MESOS", "linux_info": linux}
        return permissions.may(viewer, state.frameworks, "LAUNCH_NESTED_CONTAINER", body)

    assert [launches(user) for user in ("alice", "carol", "bob", "root", "0", "")] == [True, True, *[False] * 4]
    assert launches("carol", **linux_info)
    for field in ("effective_capabilities", "capability_info"):
        assert launches("carol", **{field: {"capabilities": ["CHOWN"]}})
        assert not launches("carol", **{field: {"capabilities": ["CHOWN", "SETUID"]}})
    assert launches("carol", bounding_capabilities={"capabilities": ["SETUID"]}), "a bound gives no capability"
    assert not launches("carol", seccomp={"profile_name": "another.json"})


def test_an_executor_that_the_agent_does_not_know_launches_nothing(state: AgentState) -> None:
    viewer = Viewer(OPEN, Principal(claims={"cid": "gone"}))
    body = {"container_id": container("gone", "n"), "command": {"value": "true"}}
    assert not permissions.may(viewer, state.frameworks, "LAUNCH_NESTED_CONTAINER", body)


def test_a_session_without_a_user_is_one_of_its_parents_user(state: AgentState) -> None:
    session = "launch_nested_container_sessions"
    names = (f"{session}_as_user", f"{session}_under_parent_with_user")
    body = {"container_id": container("c1", "n"), "command": {"value": "id"}}
    for user, may in (("bob", True), ("alice", False)):
        viewer = Viewer(acls(**{name: only("ops", "users", user) for name in names}, permissive=False), OPS)
        assert permissions.may(viewer, state.frameworks, "LAUNCH_NESTED_CONTAINER_SESSION", body) is may
    bobs = Viewer(acls(**{name: only("ops", "users", "bob") for name in names}, permissive=False), OPS)
    as_root = {**body, "command": {"value": "id", "user": "root"}}
    assert not permissions.may(bobs, state.frameworks, "LAUNCH_NESTED_CONTAINER_SESSION", as_root)


@pytest.mark.parametrize("kind", ["LAUNCH_NESTED_CONTAINER", "LAUNCH_CONTAINER", "LAUNCH_NESTED_CONTAINER_SESSION"])
def test_an_executors_token_makes_nobody_root(state: AgentState, kind: str) -> None:
    """A token that a task found somewhere: it is worth what the executor's own user may do."""
    body = {"container_id": container("c0", "n"), "command": {"value": "true", "user": "root"}}
    assert not permissions.may(Viewer(acls(), EXECUTOR), state.frameworks, kind, body)
    assert permissions.may(Viewer(acls(), OPS), state.frameworks, kind, body)
    of_bob = Viewer(acls(), Principal(claims={"fid": FRAMEWORK_ID, "eid": "of-bob", "cid": "c1"}))
    # Alice is the user of the framework; the executor's own is bob.
    for user, may in (("bob", True), ("alice", False), ("carol", False), (None, True)):
        command = {"value": "true"} if user is None else {"value": "true", "user": user}
        nested = {"container_id": container("c1", "n"), "command": command}
        assert permissions.may(of_bob, state.frameworks, kind, nested) is may, user


@pytest.mark.parametrize(
    ("principal", "claim"),
    [
        (None, None),
        (EXECUTOR, None),
        (OPS, "'fid'"),
        (Principal(claims={"fid": "x", "eid": "pod", "cid": "c0"}), "'fid'"),
        (Principal(claims={"fid": FRAMEWORK_ID, "eid": "x", "cid": "c0"}), "'eid'"),
        (Principal(claims={"fid": FRAMEWORK_ID, "eid": "pod"}), "'cid'"),
    ],
)
def test_an_executor_speaks_for_itself(principal: Principal | None, claim: str | None, golden: Golden) -> None:
    problem = permissions.claims_problem(principal, FRAMEWORK_ID, "pod", "c0")
    if claim is None:
        assert problem is None
    else:
        assert problem is not None
        assert claim in problem
        assert problem == golden


def test_a_task_that_its_framework_may_not_run_as_that_user_is_an_error(golden: Golden) -> None:
    judged = acls(run_tasks=only("spark", "users", "root"))
    identity = Identity("a-S0", "slave(1)@127.0.0.1:1", "127.0.0.1", 1, "/w", acls=judged)
    refused = new_state(identity=identity)
    handle(refused, run(task("t"), info=framework(*ALL_CAPABILITIES, principal="eve")), at())
    [only_one] = refused.frameworks.tasks()
    status = only_one.statuses[-1]
    assert (status["state"], status["reason"]) == ("TASK_ERROR", "REASON_TASK_UNAUTHORIZED")
    assert status["message"] == golden
    allowed = new_state(identity=identity)
    handle(allowed, run(task("t"), info=framework(*ALL_CAPABILITIES, principal="spark")), at())
    assert [t.state for t in allowed.frameworks.tasks()] == ["TASK_STARTING"]


def tasks_of(document: Any) -> list[str]:
    frameworks = document if isinstance(document, list) else [document]
    executors = [executor for shown in frameworks for executor in shown["executors"]]
    return [shown["id"] for executor in executors for shown in (*executor["tasks"], *executor["queued_tasks"])]


@pytest.mark.parametrize(
    ("action", "v1", "executors", "frameworks"),
    [("view_tasks", 1, 2, 1), ("view_executors", 1, 1, 1), ("view_frameworks", 2, 2, 1)],
)
def test_what_runs_as_somebody_else_is_left_out(
    state: AgentState, action: str, v1: int, executors: int, frameworks: int
) -> None:
    viewer = Viewer(acls(**{action: only("nobody", "users", "bob")}), OPS)
    shown = state_json.frameworks_shown(state.frameworks.active.values(), viewer)
    assert len(shown) == frameworks
    assert sum(len(f["executors"]) for f in shown) == executors
    assert len(tasks_of(shown)) == v1
    assert len(views_v1.get_executors(state, viewer)["executors"]) == executors
    listed = views_v1.get_tasks(state, viewer)
    assert sum(len(tasks) for tasks in listed.values()) == v1


def test_a_framework_of_somebody_else_is_left_out_with_all_it_runs(state: AgentState) -> None:
    viewer = Viewer(acls(view_frameworks=only("nobody", "users", "alice")), OPS)
    assert state_json.frameworks_shown(state.frameworks.active.values(), viewer) == []
    assert views_v1.get_state(state, viewer)["get_frameworks"]["frameworks"] == []
    assert not any(views_v1.get_tasks(state, viewer).values())
    assert not permissions.sees_container(viewer, state.frameworks, "c0")
    assert permissions.sees_container(EVERYBODY, state.frameworks, "c0")


def test_a_sandbox_and_a_container_are_seen_by_the_user_that_they_are_of(state: AgentState) -> None:
    [alices] = state.frameworks.active.values()
    assert isinstance(alices, Framework)
    sandboxes = Viewer(acls(access_sandboxes=only("nobody", "users", "bob")), OPS)
    assert [permissions.may_enter(sandboxes, alices, one) for one in alices.tasks.values()] == [True, False]
    containers = Viewer(acls(view_containers=only("nobody", "users", "bob")), OPS)
    assert [permissions.sees_container(containers, state.frameworks, name) for name in ("c0", "c0.n", "c1", "x")] == [
        True,
        True,
        False,
        True,
    ]
