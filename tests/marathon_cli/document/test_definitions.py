from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.document.definitions import consequence, difference, editable, to_send
from tests.support.golden import Golden

APP = {"id": "/a", "cmd": "x", "instances": 4, "gpus": 1}


def test_what_the_server_sets_is_not_sent_back() -> None:
    shown = {**APP, "version": "v", "tasks": [], "tasksStats": {}, "ports": [1], "portDefinitions": [{"port": 1}]}
    assert editable(shown) == {**APP, "portDefinitions": [{"port": 1}]}
    assert editable({"ports": [1], "user": None}) == {"ports": [1]}


def test_a_difference_shows_only_what_differs() -> None:
    before = {"a": 1, "env": {"X": "1", "Y": "2"}, "z": [1, 2]}
    after = {"z": [1, 3], "env": {"Y": "2", "X": "9"}, "a": 1}
    changed = [line for line in difference(before, after) if line[0] in "+-"]
    assert changed == ["-  X: '1'", "+  X: '9'", "-- 2", "+- 3"]
    assert difference(before, dict(reversed(before.items()))) == []


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"instances": 6},
        {"instances": 1},
        {"instances": 0, "cmd": "y"},
        {"executorResources": {"cpus": 1}},
        {"priority": 3, "preemptible": True},
        {"cmd": "y"},
        {"cmd": "y", "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}},
        {"gpus": 2, "upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 0}},
    ],
)
def test_what_an_update_means_for_the_tasks(change: dict[str, Any], golden: Golden) -> None:
    assert consequence(APP, {**APP, **change}) == golden


DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2) | st.lists(st.integers(0, 1)), max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_what_is_sent_leads_from_one_definition_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    body, partial = to_send(before, after)
    assert ({**before, **body} if partial else body) == after


def test_one_task_is_not_called_all_tasks(golden: Golden) -> None:
    one = {**APP, "instances": 1, "gpus": 0}
    assert consequence(one, {**one, "cmd": "y"}) == golden
