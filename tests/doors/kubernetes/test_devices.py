"""What a kubelet is told of the agent's GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.doors.kubernetes import devices


def lease(name: str, *gpus: str, door: str = "kubernetes") -> dict[str, Any]:
    return {"id": name, "door": door, "gpus": [{"uuid": gpu} for gpu in gpus]}


@pytest.mark.parametrize(
    ("gpu", "health"),
    [
        ({}, "Healthy"),
        ({"condition": "healthy", "lease_id": "l", "door": "kubernetes"}, "Healthy"),
        ({"lease_id": "l", "door": "docker"}, "Unhealthy"),
        ({"container_id": "c"}, "Unhealthy"),
        ({"condition": "failed"}, "Unhealthy"),
    ],
)
def test_what_others_hold_and_what_is_ill_is_unhealthy_and_never_left_out(gpu: dict[str, Any], health: str) -> None:
    found = devices.listed([{"uuid": "b", "index": 1}, {"uuid": "a", "index": 0, **gpu}])
    assert [(one.id, one.health) for one in found] == [("a", health), ("b", "Healthy")]


@pytest.mark.parametrize(
    ("needed", "count", "expected"),
    [
        ([], 2, ["b", "d"]),
        ([], 3, ["b", "d", "a"]),
        (["a"], 2, ["a", "c"]),
        (["a", "b"], 2, ["a", "b"]),
        ([], 5, ["a", "b", "c", "d"]),
        ([], 0, []),
    ],
)
def test_gpus_with_links_between_them_are_preferred(needed: list[str], count: int, expected: list[str]) -> None:
    near, far, linked = {"nvlinks": 0, "level": 10}, {"nvlinks": 0, "level": 50}, {"nvlinks": 4, "level": 50}
    pairs = {"ab": far, "ac": near, "ad": far, "bc": far, "bd": linked, "cd": far}
    links: dict[str, dict[str, Any]] = {name: {} for name in "abcd"}
    for (one, other), link in pairs.items():
        links[one][other] = links[other][one] = link
    assert devices.best_connected(links, "abcd", needed, count) == expected


def test_leases_are_held_against_the_pods() -> None:
    leases = [lease("old", "a"), lease("fresh", "b"), lease("used", "c", "d"), lease("other", "e", door="docker")]
    assert devices.unused(leases, ["c"], ["fresh"]) == ["old"]
    assert devices.of(leases, ["d", "e"]) == ["used"]
    assert devices.missing(leases, ["c", "f"], [{"uuid": "f", "index": 1}, {"uuid": "c", "index": 0}]) == ["f"]
