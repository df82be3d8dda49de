"""Versions of apps, and the times that name them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.definitions.runspec import restarted, versioned
from mesos_gpu.marathon.definitions.timestamps import later_than, seconds_of, timestamp
from tests.support.marathon.builders import V0, spec

V1 = "2024-01-01T00:00:00.000Z"


def test_a_change_of_instances_is_a_scaling() -> None:
    new = versioned({**spec().definition, "instances": 3}, V1, spec())
    assert new.document["versionInfo"] == {"lastScalingAt": V1, "lastConfigChangeAt": V0}
    assert new.config_version == V0


def test_any_other_change_is_of_the_configuration() -> None:
    new = versioned({**spec().definition, "instances": 3, "mem": 64}, V1, spec())
    assert new.document["versionInfo"] == {"lastScalingAt": V1, "lastConfigChangeAt": V1}


def test_a_restart_makes_everything_outdated() -> None:
    assert restarted(spec(), V1).config_version == V1
    assert restarted(spec(), V1).definition == spec().definition


def test_names_of_tasks_are_paths_backwards() -> None:
    assert spec("/prod/web").task_name == "web.prod"


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_read_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(seconds_of(timestamp(milliseconds / 1000)) * 1000) == milliseconds


@given(st.lists(st.integers(1_700_000_000_000, 1_700_000_000_010), min_size=2))
def test_versions_always_grow(times: list[int]) -> None:
    versions: list[str] = []
    for milliseconds in times:
        versions.append(later_than(versions[-1] if versions else None, milliseconds / 1000))
    assert versions == sorted(set(versions))
