"""Units of plugins among resources, of tasks and of agents."""

from __future__ import annotations

import pytest

from mesos_gpu.agent.model.device_units import is_units, refusal, stale_units, units_of, with_units
from mesos_gpu.mesos.resources import Resources

X = "example.com/x"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [(X, True), ("nvidia.com/mig-1g.5gb", True), ("gpus", False), ("/x", False), ("x/", False), ("a/b/c", False)],
)
def test_extended_resources_have_a_domain(name: str, is_one: bool) -> None:
    assert is_units(name) is is_one


def test_units_are_counted_by_resource_and_gpus_where_they_come_from_a_plugin() -> None:
    resources = Resources.parse(f"cpus:1;gpus:2;{X}:3")
    assert units_of(resources) == {X: 3}
    assert units_of(resources, "nvidia.com/gpu") == {X: 3, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("resources", "running", "refused"),
    [
        (f"cpus:1;{X}:1", False, ""),
        (f"cpus:1;{X}:0.5", False, X),
        (f"cpus:1;{X}:1", True, X),
        ("cpus:1;gpus:1", True, "nvidia.com/gpu"),
        ("cpus:1", True, ""),
    ],
)
def test_a_task_gets_whole_devices_and_none_late(resources: str, running: bool, refused: str) -> None:
    info = {"resources": Resources.parse(resources).to_json()}
    problem = refusal(info, "nvidia.com/gpu", running=running)
    assert refused in problem if problem else not refused


def test_an_agent_has_units_beside_its_own_and_what_is_reserved_of_them_stays() -> None:
    own, nothing = Resources.parse("cpus:4;mem:1024"), Resources()
    total = with_units(own, {X: 2, "nvidia.com/gpu": 3}, nothing, "nvidia.com/gpu")
    assert (total.value(X), total.gpus, total.value("cpus")) == (2, 3, 4)
    kept = Resources.parse(f"{X}(ml):3")
    assert with_units(own, {X: 2}, kept, None).value(X) == 3
    assert with_units(own, {}, kept, None).value(X) == 3
    assert with_units(own, {X: 0}, nothing, None) == own


def test_units_that_a_task_left_in_its_executor_are_counted() -> None:
    executor, live = ({"resources": Resources.parse(text).to_json()} for text in (f"cpus:1;{X}:1", f"{X}:1;gpus:1"))
    held = {X: ["a", "b", "c"], "nvidia.com/gpu": ["g"]}
    assert stale_units(held, [executor, live], "nvidia.com/gpu") == {X: 1}
    assert stale_units(held, [executor], "nvidia.com/gpu") == {X: 2, "nvidia.com/gpu": 1}
    assert stale_units({X: ["a"]}, [executor], None) == {}
