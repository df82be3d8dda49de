"""The files of cGPU's tree: what is in each, and what writing into one means."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.model.share_tree import node, written
from mesos_gpu.errors import BadInput, NotFound
from tests.support.golden import Golden

ONE = {"container_id": "73b3-a", "weight": 2, "high_priority": False, "memory_mib": 6610, "memory_used_mib": 191}
CARDS: list[dict[str, Any]] = [
    {"index": 2, "policy": 1, "max_inst": 25, "prio_ratio": 90, "free_weight": 23, "containers": [ONE]}
]


def read(path: str) -> str | None:
    return node(CARDS, path, "1.2").text


def test_folders_have_the_names_of_cgpu() -> None:
    assert node(CARDS, "/", "1.2").names == ("default_memsize", "inst_ctl", "upgrade", "version", "2")
    assert node(CARDS, "/2", "1.2").names == ("free_weight", "major", "max_inst", "policy", "prio_ratio", "73b3-a")
    assert node(CARDS, "/2/73b3-a", "1.2").names == ("highprio", "id", "memsize", "meminfo", "weight")


def test_files_say_what_is_so() -> None:
    found = {path: read(path) for path in ("/version", "/2/free_weight", "/2/policy", "/2/73b3-a/weight", "/2/major")}
    assert list(found.values()) == ["1.2\n", "23\n", "1\n", "2\n", "195\n"]
    assert read("/2/73b3-a/memsize") == f"{6610 << 20}\n"
    # The sample on cGPU's page: 6610 MiB of which 191 are used.
    assert read("/2/73b3-a/meminfo") == "Free: 6730809344\nUsed: 200278016\n"
    assert read("/default_memsize") == "0\n"


@pytest.mark.parametrize("path", ["/9", "/2/nope/id", "/2/73b3-a/nope", "/a/b/c/d", "/2/73b3-a/id/x", "/policy"])
def test_what_is_not_there_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        node(CARDS, path, "1.2")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("/2/policy", "2\n", {"card": 2, "policy": 2}),
        ("/2/max_inst", "20", {"card": 2, "max_inst": 20}),
        ("/2/prio_ratio", "80", {"card": 2, "prio_ratio": 80}),
        ("/2/73b3-a/weight", "4\n", {"container_id": "73b3-a", "weight": 4}),
        ("/2/73b3-a/highprio", "1\n", {"container_id": "73b3-a", "high_priority": True}),
        ("/upgrade", "0", None),
        ("/2/73b3-a/memsize", str(6610 << 20), None),
    ],
)
def test_what_is_written_is_set(path: str, text: str, said: dict[str, Any] | None) -> None:
    assert written(CARDS, path, text) == said


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/2/policy", "two"),
        ("/2/free_weight", "3"),
        ("/2", "3"),
        ("/2/73b3-a/highprio", "2"),
        ("/2/73b3-a/memsize", "1"),
        ("/inst_ctl", "1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(path: str, text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        written(CARDS, path, text)
    assert str(refused.value) == golden
