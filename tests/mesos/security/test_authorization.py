from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.security.authorization import ACTIONS, OPEN, Acls, Kind, Principal, read_acls
from tests.support.golden import Golden

FOO, BAR = Principal("foo"), Principal("bar")
ANY, NONE = {"type": "ANY"}, {"type": "NONE"}


def some(*values: str) -> dict[str, Any]:
    return {"values": list(values)}


def acls(permissive: bool = True, **lists: list[dict[str, Any]]) -> Acls:
    return read_acls("acls", json.dumps({"permissive": permissive, **lists}))


# Mesos' two matrices: (what is asked for, the list's entity, whether it matches, whether it allows).
@pytest.mark.parametrize(
    ("asked", "entity", "matches", "allows"),
    [
        ("foo", some("foo", "x"), True, True),
        ("foo", some("x"), False, None),
        ("foo", NONE, True, False),
        ("foo", ANY, True, True),
        (None, some("foo"), False, None),
        (None, NONE, True, False),
        (None, ANY, True, True),
    ],
)
def test_an_entity_matches_and_allows_as_in_mesos(
    asked: str | None, entity: dict[str, Any], matches: bool, allows: bool | None
) -> None:
    who = None if asked is None else Principal(asked)
    for permissive in (True, False):
        expected = allows if matches else permissive
        of_subject = acls(permissive, run_tasks=[{"principals": entity, "users": ANY}])
        assert of_subject.approved("run_tasks", who, "root") is expected
        of_object = acls(permissive, run_tasks=[{"principals": ANY, "users": entity}])
        assert of_object.approved("run_tasks", FOO, asked) is expected


def test_the_first_entry_that_matches_decides() -> None:
    only_foo = [
        {"principals": some("foo"), "roles": some("analytics", "ads")},
        {"principals": some("foo"), "roles": NONE},
    ]
    judged = acls(register_frameworks=only_foo)
    assert judged.approved("register_frameworks", FOO, "ads")
    assert not judged.approved("register_frameworks", FOO, "web")
    assert judged.approved("register_frameworks", BAR, "web")
    assert judged.approved("register_frameworks", None, "ads")
    turned = acls(register_frameworks=list(reversed(only_foo)))
    assert not turned.approved("register_frameworks", FOO, "ads")


def test_what_no_entry_is_about_is_as_permissive_says() -> None:
    assert acls().approved("teardown_frameworks", FOO, "bar")
    assert not acls(False).approved("teardown_frameworks", FOO, "bar")
    assert OPEN.approved("teardown_frameworks", None)


@pytest.mark.parametrize(
    ("role", "approved"),
    [("eng", False), ("eng/dev", True), ("eng/dev/x", True), ("engineers", False), ("ops", True), ("*", False)],
)
def test_a_role_with_a_percent_sign_stands_for_all_below_it_and_not_for_itself(role: str, approved: bool) -> None:
    judged = acls(False, reserve_resources=[{"principals": some("foo"), "roles": some("eng/%", "ops")}])
    assert judged.approved("reserve_resources", FOO, role) is approved
    assert not judged.approved("reserve_resources", BAR, role)


def test_roles_below_may_be_closed_before_their_parents_are_opened() -> None:
    judged = acls(
        False,
        get_quotas=[{"principals": NONE, "roles": some("eng/secret/%")}, {"principals": ANY, "roles": some("eng/%")}],
    )
    assert not judged.approved("get_quotas", FOO, "eng/secret/x")
    assert judged.approved("get_quotas", FOO, "eng/secret")


def test_there_is_one_object_only_where_a_list_says_nothing_of_objects() -> None:
    judged = acls(False, mark_agents_gone=[{"principals": some("foo"), "agents": ANY}])
    assert judged.approved("mark_agents_gone", FOO, "whatever")
    assert not judged.approved("mark_agents_gone", BAR)


def test_an_executor_does_things_below_its_own_container_only_whatever_the_lists_say() -> None:
    executor = Principal(claims={"fid": "f", "eid": "e", "cid": "c"})
    for judged in (acls(), acls(False)):
        assert judged.approved("kill_nested_containers", executor, "root", container="c")
        assert not judged.approved("kill_nested_containers", executor, "root", container="other")
        assert not judged.approved("kill_nested_containers", executor, "root")
        assert not judged.approved("view_tasks", executor, "root", container="c")
    assert str(executor) == '{"claims":{"fid":"f","eid":"e","cid":"c"}}'
    assert str(FOO) == "foo"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"permissive": "yes"}',
        '{"register_framework": []}',
        '{"run_tasks": {}}',
        '{"run_tasks": [{"principals": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {"type": "any"}, "users": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {"values": "x"}, "users": {"type": "ANY"}}]}',
        '{"run_tasks": [{"principals": {}, "users": {"type": "ANY"}}]}',
        '{"view_flags": [{"principals": {"type": "ANY"}, "flags": {"values": ["a"]}}]}',
        '{"get_endpoints": [{"principals": {"type": "ANY"}, "paths": {"values": ["/state"]}}]}',
    ],
)
def test_lists_that_would_not_do_what_they_seem_to_are_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        read_acls("acls", text)
    assert str(refused.value) == golden


def test_every_action_of_mesos_can_be_closed_and_opened() -> None:
    assert len(ACTIONS) == 54
    for action, (objects, kind) in ACTIONS.items():
        thing = {Kind.PATHS: "/metrics/snapshot", Kind.IMPLICIT: None}.get(kind, "x")
        entity = ANY if thing is None else some(thing)
        judged = acls(False, **{action: [{"principals": some("foo"), objects: entity}]})
        assert judged.approved(action, FOO, thing)
        assert not judged.approved(action, BAR, thing)


@given(
    st.lists(st.tuples(st.sampled_from(["foo", "bar", "ANY", "NONE"]), st.sampled_from(["a", "b", "ANY", "NONE"]))),
    st.sampled_from([None, "foo", "bar"]),
    st.sampled_from([None, "a", "b"]),
)
def test_more_entries_at_the_end_change_nothing_that_was_decided(
    rows: list[tuple[str, str]], who: str | None, role: str | None
) -> None:
    def entity(word: str) -> dict[str, Any]:
        return {"type": word} if word in ("ANY", "NONE") else some(word)

    entries = [{"principals": entity(subject), "roles": entity(thing)} for subject, thing in rows]
    principal = None if who is None else Principal(who)

    def answers(count: int) -> set[bool]:
        """What the first entries decide; both answers where that is left to `permissive`."""
        return {acls(p, view_roles=entries[:count]).approved("view_roles", principal, role) for p in (True, False)}

    for count in range(len(entries)):
        assert answers(count + 1) <= answers(count)
