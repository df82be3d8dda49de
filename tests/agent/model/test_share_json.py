"""Shared cards with the names of tasks, and for Prometheus."""

from __future__ import annotations

from mesos_gpu.agent.model.share_json import exposition, named

ONE = {"container_id": "a", "weight": 2, "high_priority": False, "memory_mib": 6043, "memory_level": "watcher"}
FIGURES = {"part": 0.5, "used_s": 1.25, "frozen_s": 0.5, "memory_used_mib": 100}
CARD = {"index": 2, "uuid": "GPU-2", "policy": 1, "max_inst": 25, "free_weight": 22}


def test_tasks_are_named_and_hidden_ones_are_not_there() -> None:
    cards = [{**CARD, "containers": [ONE, {**ONE, "container_id": "b"}, {**ONE, "container_id": "c"}]}]
    (card,) = named(cards, {"a": ("F", "train.1"), "c": ("F", "other")}, hidden=["c"])
    assert [one.get("task_id") for one in card["containers"]] == ["train.1", None]


def test_figures_say_what_is_asked_given_used_and_throttled() -> None:
    cards = named([{**CARD, "containers": [{**ONE, **FIGURES}]}], {"a": ("F", 'tr"ain')})
    text = exposition(cards)
    labels = 'uuid="GPU-2",index="2",framework="F",task="tr\\"ain",container="a",memory_level="watcher"'
    assert f"mesos_gpu_share_weight{{{labels}}} 2\n" in text
    assert f"mesos_gpu_share_memory_limit_bytes{{{labels}}} {6043 << 20}\n" in text
    assert f"mesos_gpu_share_given_ratio{{{labels}}} 0.5\n" in text
    assert f"mesos_gpu_share_used_seconds_total{{{labels}}} 1.25\n" in text
    assert f"mesos_gpu_share_throttled_seconds_total{{{labels}}} 0.5\n" in text
    assert f"mesos_gpu_share_memory_used_bytes{{{labels}}} {100 << 20}\n" in text
    assert 'mesos_gpu_shared_slices_free{uuid="GPU-2",index="2"} 22\n' in text
    assert text.count("# TYPE mesos_gpu_share_used_seconds_total counter") == 1


def test_what_is_not_known_is_left_out() -> None:
    text = exposition([{**CARD, "containers": [ONE]}])
    assert "used" not in text
    assert "mesos_gpu_share_weight" in text
    assert exposition([]) == ""
