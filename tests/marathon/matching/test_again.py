"""An offer that comes again is known by its document, with all that was found out of it."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.mesos.ids import Role
from tests.support.marathon.builders import offer


def test_what_comes_again_under_another_id_is_not_read_again() -> None:
    first = Offer.from_json(offer("O1", gpus=2, attributes={"rack": "a"}))
    first.reasons["it"] = ()
    common = first.usable((Role("*"),), first.resources)
    again = first.again(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again == Offer.from_json(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again is not None
    assert again.reasons is first.reasons
    assert again.usable((Role("*"),), again.resources) is common
    assert first.again(first.document) is first


@pytest.mark.parametrize(
    "other",
    [{"gpus": 1}, {"attributes": {"rack": "b"}}, {"host": "h2"}, {"cpus": 3}],
    ids=lambda other: next(iter(other)),
)
def test_what_says_anything_else_is_read(other: dict[str, Any]) -> None:
    told: dict[str, Any] = {"gpus": 2, "attributes": {"rack": "a"}}
    assert Offer.from_json(offer("O1", **told)).again(offer("O2", **{**told, **other})) is None
