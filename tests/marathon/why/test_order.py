"""What is said of an app that waits in order."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.why.answer import answer
from mesos_gpu.marathon.why.facts import Situation
from mesos_gpu.marathon.why.order import order_words, waits_in_order
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.marathon.why.verdict import verdict_of
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app


@pytest.mark.parametrize(
    "order",
    [
        {"members": 4, "membersThatFit": 3},
        {"members": 1, "membersThatFit": 1, "behind": "/b"},
        {"members": 2, "membersThatFit": 1, "startsBy": "2026-01-01T00:00:00.000Z"},
    ],
)
def test_how_near_it_is_is_told_in_a_few_words(order: dict[str, Any], golden: Golden) -> None:
    words = order_words({"order": order})
    assert order.get("startsBy", "") in words
    assert words == golden


def test_nothing_is_told_of_a_single_instance_that_waits_for_no_other() -> None:
    assert order_words({"order": {}}) == ""
    assert order_words({"order": {"place": 1, "members": 1, "membersThatFit": 0}}) == ""


def test_who_waits_behind_another_is_told_what_would_put_it_first() -> None:
    told = waits_in_order(request_of(app(id="/a")), {"order": {"members": 1, "membersThatFit": 1, "behind": "/b"}})
    assert told is not None
    assert [line.partition(" ")[0] for line in told[1]] == ["a", "`mesos-gpu"]


def test_a_gang_for_which_machines_are_kept_may_be_made_smaller(golden: Golden) -> None:
    order = {"members": 4, "membersThatFit": 3, "startsBy": None}
    told = waits_in_order(request_of(app(id="/a")), {"order": order})
    assert told is not None
    assert told[0] == golden
    assert told[1] == golden
    document = app(instances=4, gang={"size": 4})
    queued = {"count": 4, "delay": {"timeLeftSeconds": 0}, "order": order}
    there = [agent(name) for name in "abcd"]
    request = request_of(document)
    verdicts = [verdict_of(request, one, Rules()) for one in there]
    found = answer(Situation(document, request, queued=queued, agents=there, verdicts=verdicts))
    assert (found.state, found.headline) == ("waiting", golden)
