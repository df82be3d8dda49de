from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.document.definitions import consequence, difference, editable, to_send

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
    ("change", "text"),
    [
        ({}, "nothing changes"),
        ({"instances": 6}, "2 more start"),
        ({"instances": 1}, "3 of 4 end"),
        ({"instances": 0, "cmd": "y"}, "4 of 4 end"),
        ({"executorResources": {"cpus": 1}}, "no task is touched"),
        ({"priority": 3, "preemptible": True}, "no task is touched"),
        (
            {"cmd": "y"},
            "all 4 tasks are replaced: at least 4 stay, at most 8 run at once, which takes up to 4 more GPUs meanwhile",
        ),
        (
            {"cmd": "y", "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}},
            "all 4 tasks are replaced: at least 2 stay, at most 4 run at once",
        ),
        (
            {"gpus": 2, "upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 0}},
            "all 4 tasks are replaced: at least 4 stay, at most 5 run at once, which takes up to 2 more GPUs meanwhile",
        ),
    ],
)
def test_what_an_update_means_for_the_tasks(change: dict[str, Any], text: str) -> None:
    assert consequence(APP, {**APP, **change}) == text


DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2) | st.lists(st.integers(0, 1)), max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_what_is_sent_leads_from_one_definition_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    body, partial = to_send(before, after)
    assert ({**before, **body} if partial else body) == after


def test_one_task_is_not_called_all_tasks() -> None:
    one = {**APP, "instances": 1, "gpus": 0}
    assert consequence(one, {**one, "cmd": "y"}) == "its task is replaced: at least 1 stay, at most 2 run at once"
