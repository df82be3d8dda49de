"""Who may do without the user namespace that others have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.agent.decisions import outcomes
from mesos_gpu.agent.model.events import RunTask
from mesos_gpu.agent.model.namespace_exits import NamespaceExits, wants_out
from mesos_gpu.mesos.security.authorization import OPEN, Acls, read_acls
from tests.support.agent.documents import ALL_CAPABILITIES, framework, new_state, task
from tests.support.golden import Golden

ALLOWED, SHUT, NONE = NamespaceExits(True, True), NamespaceExits(True, False), NamespaceExits(False, False)
OUT = {"labels": {"labels": [{"key": "USERNS", "value": "host"}]}}


def root_for(*principals: str) -> Acls:
    """Lists by which these may run anything, and others what is not root's."""
    anybody = {"type": "ANY"}
    lists = {
        "run_tasks": [
            {"principals": {"values": list(principals)}, "users": anybody},
            {"principals": anybody, "users": {"values": ["alice"]}},
            {"principals": anybody, "users": {"type": "NONE"}},
        ]
    }
    return read_acls("acls", json.dumps(lists))


def refused(exits: NamespaceExits, acls: Acls, principal: str, *, group: bool = False, **more: Any) -> str | None:
    info = {**framework(*ALL_CAPABILITIES, user="alice"), "principal": principal}
    state = new_state()
    event = RunTask(info, (task("t", **more),), group=group)
    verdict = outcomes.refused_run(
        event, state.frameworks.enter(info), resource_version="", draining=False, acls=acls, exits=exits
    )
    if verdict is None:
        return None
    assert (verdict.state, verdict.reason) == (
        "TASK_ERROR",
        "REASON_TASK_GROUP_UNAUTHORIZED" if group else "REASON_TASK_UNAUTHORIZED",
    )
    return verdict.message


def test_who_may_run_tasks_as_root_may_leave_the_namespace_and_nobody_else(golden: Golden) -> None:
    acls = root_for("ops")
    assert refused(ALLOWED, acls, "ops", **OUT) is None
    assert str(refused(ALLOWED, acls, "eve", **OUT)) == golden
    assert refused(ALLOWED, acls, "eve") is None
    assert refused(ALLOWED, OPEN, "eve", **OUT) is None


def test_an_agent_that_does_not_allow_it_lets_nobody_out() -> None:
    for acls in (OPEN, root_for("ops")):
        assert "(--userns_remap_exempt)" in str(refused(SHUT, acls, "ops", **OUT))


def test_what_an_executor_runs_stays_in() -> None:
    assert "its executor's" in str(refused(ALLOWED, OPEN, "ops", group=True, **OUT))
    executor = {"executor": {"executor_id": {"value": "e"}, "command": {"value": "true"}}}
    assert "its executor's" in str(refused(ALLOWED, OPEN, "ops", **OUT, **executor))


def test_where_nobody_has_a_namespace_the_label_says_nothing() -> None:
    assert refused(NONE, root_for("ops"), "eve", **OUT) is None
    assert not NONE.takes(OUT)


@pytest.mark.parametrize(
    "labels", [{}, {"labels": {}}, {"labels": {"labels": [{"key": "USERNS"}, {"key": "USERNS", "value": "private"}]}}]
)
def test_other_labels_ask_for_nothing(labels: dict[str, Any]) -> None:
    assert not wants_out(labels)
