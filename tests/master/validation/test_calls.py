from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.master.validation.calls import call_problem, framework_problem
from tests.support.master.build import UUID, framework_info, recorded

ID = {"value": "f"}


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({}, "Expecting 'type' to be present"),
        ({"type": "SUBSCRIBE"}, "Expecting 'subscribe' to be present"),
        ({"type": "DECLINE", "decline": {}}, "Expecting 'framework_id' to be present"),
        ({"type": "DECLINE", "framework_id": ID}, "Expecting 'decline' to be present"),
        ({"type": "ACCEPT_INVERSE_OFFERS", "framework_id": ID}, "Expecting 'accept_inverse_offers' to be present"),
        ({"type": "TEARDOWN", "framework_id": ID}, None),
        ({"type": "REVIVE", "framework_id": ID}, None),
        ({"type": "SUPPRESS", "framework_id": ID}, None),
    ],
)
def test_a_call_has_its_framework_and_its_body(call: dict[str, Any], problem: str | None) -> None:
    assert call_problem(call) == problem


@pytest.mark.parametrize(("uuid", "fine"), [(UUID, True), ("AAAA", False), ("", False), ("?", False)])
def test_an_acknowledged_uuid_has_sixteen_bytes(uuid: str, fine: bool) -> None:
    body = {"agent_id": {"value": "a"}, "task_id": {"value": "t"}, "uuid": uuid}
    call = {"type": "ACKNOWLEDGE", "framework_id": ID, "acknowledge": body}
    assert call_problem(call) == (None if fine else "Not a valid UUID")
    of_operation = {"uuid": uuid, "operation_id": {"value": "o"}}
    call = {"type": "ACKNOWLEDGE_OPERATION_STATUS", "framework_id": ID, "acknowledge_operation_status": of_operation}
    assert call_problem(call) == ("Expecting 'agent_id' to be present" if fine else "Not a valid UUID")


@pytest.mark.parametrize("call_id", [None, "f", "g"])
@pytest.mark.parametrize("info_id", [None, "f"])
def test_a_subscription_names_one_framework_or_none(call_id: str | None, info_id: str | None) -> None:
    info = framework_info() | ({} if info_id is None else {"id": {"value": info_id}})
    call: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
    if call_id is not None:
        call["framework_id"] = {"value": call_id}
    assert (call_problem(call) is None) == (call_id == info_id)


@pytest.mark.parametrize("subscription", recorded()["subscriptions"], ids=lambda s: str(s["framework_info"]["roles"]))
def test_frameworks_are_refused_in_mesos_words(subscription: dict[str, Any]) -> None:
    if subscription["status"] == 400:
        call = {"type": "SUBSCRIBE", "subscribe": {"framework_info": subscription["framework_info"]}}
        assert f"Failed to validate scheduler::Call: {call_problem(call)}" == subscription["body"]
        return
    errors = [event["error"]["message"] for event in subscription["events"] if event["type"] == "ERROR"]
    assert framework_problem(subscription["framework_info"]) == (errors[0] if errors else None)


def test_an_unusable_failover_timeout_or_suppressed_role_is_refused() -> None:
    for beyond, shown in ((1e300, "1e+300"), ("NaN", "nan"), (-1e10, "-1e+10")):
        words = framework_problem(framework_info(failover_timeout=beyond))
        assert words == f"The framework failover_timeout ({shown}) is invalid"
    assert framework_problem(framework_info(failover_timeout=-1.0)) is None, "as Mesos: over at once"
    assert "failover_timeout" in str(framework_problem(framework_info(failover_timeout="Infinity")))
    assert "'other'" in str(framework_problem(framework_info(), ("other",)))
    assert framework_problem(framework_info(), ("*",)) is None
    assert "contains invalid characters" in str(framework_problem(framework_info(id={"value": "a/b"})))
