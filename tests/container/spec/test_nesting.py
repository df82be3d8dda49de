"""Where a nested container lies, and what a session takes from its parent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.config import CONTAINER_ID
from mesos_gpu.container.spec.nesting import (
    cgroup_of,
    deepest_first,
    descendants,
    entering,
    leaf,
    parent_of,
    without_gpus,
)
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.container.state.recovering import recovered
from mesos_gpu.errors import BadInput
from mesos_gpu.isolator.plan import DeviceRule, LaunchPlan
from tests.support.golden import Golden

PART = st.text("ab1-_", min_size=1, max_size=3).filter(lambda text: text[0] not in "-_")
ID = st.lists(PART, min_size=1, max_size=4).map(".".join)

PARENT: dict[str, Any] = {
    "args": ["/usr/bin/tini", "--", "sh"],
    "env": ["PATH=/bin", "A=1", "EQUALS=a=b"],
    "cwd": "/sandbox",
    "user": {"uid": 7, "gid": 8, "additionalGids": [9]},
    "capabilities": {"bounding": ["CAP_KILL"]},
    "terminal": False,
}


@given(ID)
def test_an_id_is_its_parents_and_its_own_part(container_id: str) -> None:
    assert CONTAINER_ID.fullmatch(container_id)
    parent = parent_of(container_id)
    assert container_id == (leaf(container_id) if parent is None else f"{parent}.{leaf(container_id)}")
    assert parent is None or cgroup_of(container_id) == f"{cgroup_of(parent)}/mesos/{leaf(container_id)}"


@given(st.sets(ID), ID)
def test_descendants_come_before_what_they_lie_in(ids: set[str], root: str) -> None:
    found = descendants(root, ids)
    assert set(found) == {one for one in ids if one.startswith(f"{root}.")}
    assert all(found.index(one) < found.index(parent) for one in found if (parent := parent_of(one)) in found)
    assert deepest_first(reversed(found)) == found


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a..b", "a/b", "a.-b", "a b", "a" * 241])
def test_what_is_no_path_of_ids_is_no_id(bad: str) -> None:
    assert not CONTAINER_ID.fullmatch(bad)


def test_a_session_has_its_parents_surroundings_and_its_own_command(golden: Golden) -> None:
    process = entering(PARENT, Command(value="echo hi"), {"A": "2", "B": "3"}, None, terminal=True)
    assert process["args"] == ["/bin/sh", "-c", "echo hi"]
    assert process["env"] == ["PATH=/bin", "A=2", "EQUALS=a=b", "B=3"]
    assert (process["cwd"], process["user"]) == ("/sandbox", PARENT["user"])
    assert process["capabilities"] == PARENT["capabilities"]
    assert process["terminal"] is True
    executor = {**PARENT, "env": [*PARENT["env"], "MESOS_EXECUTOR_AUTHENTICATION_TOKEN=a.b.c"]}
    assert entering(executor, Command(value="env"), {}, None)["env"] == PARENT["env"]
    process = entering(PARENT, Command(False, "ls", ("ls", "-l")), {}, HostUser(1, 2, (3,)))
    assert process["args"] == ["ls", "-l"]
    assert process["user"] == {"uid": 1, "gid": 2, "additionalGids": [3]}
    with pytest.raises(BadInput) as refused:
        entering(PARENT, Command(), {}, None)
    assert str(refused.value) == golden


def test_a_policy_of_its_own_has_no_gpu() -> None:
    plan = LaunchPlan(rules=(DeviceRule("c", 195, 0, "rw"),), environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1", "X": "y"})
    assert without_gpus(plan) == LaunchPlan(environment={"NVIDIA_VISIBLE_DEVICES": "void", "X": "y"})


def test_what_is_taken_up_after_a_restart() -> None:
    def record(name: str, **more: Any) -> Record:
        return Record(container_id=name, boot_id="b", sandbox="/s", **{"step": "running", **more})

    records = [
        record("live"),
        record("live.nested"),
        record("live.nested.deeper", step="ended"),
        record("live.session", session=True),
        record("live.half", step="preparing"),
        record("stranger"),
        record("stranger.nested"),
        record("alone", standalone=True),
        record("alone.nested"),
        record("over", step="ended"),
        record("over.nested"),
    ]
    kept = recovered({**{one.container_id: one for one in records}, "broken": None}, ["live", "over", "broken"])
    assert sorted(kept) == ["alone", "alone.nested", "live", "live.nested", "live.nested.deeper", "over"]
