"""What members of a group may do in a box: each what is his, and nothing else."""

from __future__ import annotations

import json

import pytest

from mesos_gpu.local.members import lists, marathon_of, may_be_member
from mesos_gpu.mesos.security.authorization import ACTIONS, Kind, Principal, read_acls

OWNERS = ("box", "marathon")
ACLS = read_acls("acls", json.dumps(lists(["alice", "bob"], OWNERS)))
ALICE, HER_MARATHON = Principal("alice"), Principal(marathon_of("alice"))
HERS = {
    "view_frameworks",
    "view_tasks",
    "view_executors",
    "view_containers",
    "access_sandboxes",
    "attach_containers_input",
    "attach_containers_output",
    "launch_nested_containers_as_user",
    "launch_nested_containers_under_parent_with_user",
    "launch_nested_container_sessions_as_user",
    "launch_nested_container_sessions_under_parent_with_user",
    "kill_nested_containers",
    "wait_nested_containers",
    "remove_nested_containers",
    "view_roles",
    "get_quotas",
    "register_agents",
}
HER_MARATHONS = {
    "run_tasks",
    "register_frameworks",
    "reserve_resources",
    "create_volumes",
    "resize_volumes",
    "register_agents",
}


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_a_member_may_do_what_is_about_himself_and_nothing_else(action: str) -> None:
    assert ACLS.approved(action, ALICE, "alice") is (action in HERS)
    assert ACLS.approved(action, HER_MARATHON, "alice") is (action in HER_MARATHONS)
    for other in ("bob", "root", marathon_of("bob"), "alice2", None):
        for who in (ALICE, HER_MARATHON):
            assert ACLS.approved(action, who, other) is (action == "register_agents"), (who, other)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_the_owner_may_do_everything_and_strangers_nothing(action: str) -> None:
    thing = "/containers" if ACTIONS[action][1] is Kind.PATHS else "alice"
    for owner in OWNERS:
        assert ACLS.approved(action, Principal(owner), thing)
        assert ACLS.approved(action, Principal(owner), None)
    for stranger in (Principal("mallory"), None):
        assert ACLS.approved(action, stranger, thing) is (action == "register_agents")


def test_a_member_sees_what_containers_use_where_that_is_filtered() -> None:
    allowed = [path for path in ("/containers", "/monitor/statistics") if ACLS.approved("get_endpoints", ALICE, path)]
    assert len(allowed) == 2
    assert not any(ACLS.approved("get_endpoints", ALICE, path) for path in ("/logging/toggle", "/files/debug"))


def test_a_member_frees_what_his_own_marathon_reserved() -> None:
    for action in ("unreserve_resources", "destroy_volumes"):
        assert ACLS.approved(action, HER_MARATHON, marathon_of("alice"))
        assert not ACLS.approved(action, HER_MARATHON, "marathon")


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("alice", True),
        ("_apt", True),
        ("root", False),
        ("owner", False),
        ("box", False),
        ("marathon", False),
        ("marathon-of-alice", False),
        ("../etc", False),
        ("a.b", False),
        ("", False),
        ("A", False),
    ],
)
def test_a_name_that_means_another_or_leads_elsewhere_is_no_members(name: str, may: bool) -> None:
    assert may_be_member(name, "owner", OWNERS) is may
