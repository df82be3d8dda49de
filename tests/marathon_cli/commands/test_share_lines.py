"""Cards that tasks share, line by line, and what a word means among them."""

from __future__ import annotations

from typing import Any

import pytest

from marathon_cli.commands.share import policy_number, share_lines, target_of
from mesos_gpu.errors import BadInput, NotFound
from tests.support.golden import Golden

TASK = "train.instance-1._app.1"


def card(index: int, *containers: dict[str, Any]) -> dict[str, Any]:
    said = {"policy": 2, "max_inst": 25, "prio_ratio": 90, "free_weight": 22, "memory_mib": 15109, "mem_units": 15}
    return {"index": index, "uuid": f"GPU-{index}", "memory_level": "watcher", **said, "containers": list(containers)}


def part(container: str, **more: Any) -> dict[str, Any]:
    return {"container_id": container, "weight": 2, "high_priority": False, "memory_mib": 6043, **more}


LINES = share_lines("gpu1", [card(3), card(2, part("1f0c-a", task_id=TASK, part=0.5), part("1f0d-b", weight=1))])


def test_a_card_has_a_line_for_each_part_and_one_without() -> None:
    assert [(line.card, line.holder, line.weight) for line in LINES] == [
        (2, "/train", 2),
        (2, "1f0d-b", 1),
        (3, "---", None),
    ]
    assert LINES[0].document()["policy"] == "weighted"
    assert "container" not in LINES[2].document()
    assert share_lines("gpu1", [{**card(1), "policy": 9}])[0].policy == "9"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("2", (2, None)),
        ("GPU-3", (3, None)),
        ("/train", (None, "1f0c-a")),
        ("train", (None, "1f0c-a")),
        (TASK, (None, "1f0c-a")),
        ("1f0d", (None, "1f0d-b")),
    ],
)
def test_a_word_means_a_card_or_a_container(word: str, meant: tuple[int | None, str | None]) -> None:
    assert target_of(LINES, word) == meant


def test_what_a_word_does_not_mean_is_said(golden: Golden) -> None:
    with pytest.raises(NotFound) as refused:
        target_of(LINES, "7")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        target_of(LINES, "1f0")
    assert str(refused.value) == golden


def test_policies_have_names_and_numbers(golden: Golden) -> None:
    assert [policy_number(word) for word in ("0", "Weighted", "5")] == [0, 2, 5]
    with pytest.raises(BadInput) as refused:
        policy_number("6")
    assert str(refused.value) == golden
