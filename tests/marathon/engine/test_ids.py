"""Ids that are made of a seed."""

from __future__ import annotations

from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.engine.ids import ids_from


@given(st.uuids())
def test_ids_of_a_seed_are_those_of_the_rfc_by_name(seed: UUID) -> None:
    make = ids_from(str(seed))
    assert [make() for _ in range(12)] == [str(uuid5(seed, str(number))) for number in range(1, 13)]
