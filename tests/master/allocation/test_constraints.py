from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.master.allocation.constraints import constraints_of, problem

NAME = {"attribute_name": "model"}
HOST = {"pseudoattribute_type": "HOSTNAME"}
A100 = {
    "hostname": "gpu-1",
    "attributes": [
        {"name": "model", "type": "TEXT", "text": {"value": "a100"}},
        {"name": "slots", "type": "SCALAR", "scalar": {"value": 4.0}},
    ],
    "domain": {"fault_domain": {"region": {"name": "eu"}, "zone": {"name": "eu-1"}}},
}
PLAIN = {"hostname": "cpu-1", "attributes": []}


def constraint(selector: dict[str, Any], kind: str, **body: str) -> dict[str, Any]:
    return {"selector": selector, "predicate": {kind: body}}


def document(*groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role_constraints": {"ml": {"groups": [{"attribute_constraints": group} for group in groups]}}}


def admits(info: dict[str, Any], *groups: list[dict[str, Any]]) -> bool:
    return constraints_of(document(*groups))["ml"].admit(info)


@pytest.mark.parametrize(
    ("wanted", "on_a100", "on_plain"),
    [
        (constraint(NAME, "exists"), True, False),
        (constraint(NAME, "not_exists"), False, True),
        (constraint(NAME, "text_equals", value="a100"), True, False),
        (constraint(NAME, "text_equals", value="h100"), False, False),
        (constraint(NAME, "text_not_equals", value="a100"), False, True),
        (constraint(NAME, "text_not_equals", value="h100"), True, True),
        (constraint(NAME, "text_matches", regex="a[0-9]+"), True, False),
        (constraint(NAME, "text_matches", regex="a"), False, False),
        (constraint(NAME, "text_not_matches", regex="a.*"), False, True),
        (constraint(HOST, "text_equals", value="gpu-1"), True, False),
        (constraint(HOST, "exists"), True, True),
        (constraint({"pseudoattribute_type": "REGION"}, "text_equals", value="eu"), True, False),
        (constraint({"pseudoattribute_type": "ZONE"}, "text_not_equals", value="eu-1"), False, True),
        # What is not text passes every comparison.
        (constraint({"attribute_name": "slots"}, "text_equals", value="9"), True, False),
        (constraint({"attribute_name": "slots"}, "text_not_matches", regex=".*"), True, True),
    ],
)
def test_one_constraint(wanted: dict[str, Any], on_a100: bool, on_plain: bool) -> None:
    assert (admits(A100, [wanted]), admits(PLAIN, [wanted])) == (on_a100, on_plain)


def test_all_of_a_group_and_any_of_the_groups() -> None:
    model, host = constraint(NAME, "exists"), constraint(HOST, "text_equals", value="cpu-1")
    assert not admits(A100, [model, host])
    assert admits(A100, [model, host], [model])
    assert admits(PLAIN, [model], [host])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"role_constraints": {"ml": {}}}, "has an empty 'RoleConstraints::groups' for role ml"),
        ({"role_constraints": {"ml": {"groups": [{}]}}}, "contains an empty RoleConstraints::Group"),
        (document([{"selector": {}, "predicate": {"exists": {}}}]), "Exactly one of"),
        (document([constraint({"pseudoattribute_type": "UNKNOWN"}, "exists")]), "Unknown pseudoattribute type"),
        (document([{"selector": NAME, "predicate": {}}]), "Unknown predicate type"),
        (document([constraint(NAME, "text_matches", regex="(")]), "Failed to construct regex from pattern"),
        ({"role_constraints": {"web": {}}}, "role 'web'"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], words: str) -> None:
    found = problem(given, ["ml"])
    assert found is not None
    assert words in found


def test_no_constraints_are_fine() -> None:
    assert problem({}, ["ml"]) is None
    assert problem(document([constraint(NAME, "exists")]), ["ml"]) is None
