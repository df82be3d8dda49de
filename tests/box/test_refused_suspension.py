"""An agent that cannot suspend a task, for CUDA refuses: who is told, and how. A live box, real containers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from tests.support.box.events import Listener
from tests.support.box.live import LiveBox
from tests.support.simulated.played import never_ends

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
NO = "it has not ended its kernels within 10 s (600)"
"""Why CUDA does not suspend a process that has begun a kernel of minutes."""


def app(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "cmd": never_ends(), "cpus": 0.1, "mem": 64, **more}


def counters(box: LiveBox) -> dict[str, int]:
    found = box.marathon("/metrics")["counters"]
    names = ("not-suspended", "suspended", "preempted")
    return {name: found[f"marathon.instances.{name}.counter"]["count"] for name in names}


@pytest.fixture
def two_cards(new_box: LiveBox) -> LiveBox:
    """A box with a GPU that is shared and one that is not."""
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=2", "--shared_gpus=0", "--agents=1")
    return new_box


def test_what_an_agent_refuses_to_suspend_is_told_everywhere(two_cards: LiveBox) -> None:
    box = two_cards
    box.add(app("part", preemptible=True, gpuShare={"memGiB": 10, "weight": 2}))
    box.add(app("whole", preemptible=True, gpus=1, labels={"GPU_PREEMPTION": "suspend"}))
    for name in ("part", "whole"):
        box.until(f"{name} computes", lambda name=name: "devices 1" in box.log_of(name))

    by_hand = box.cli("task", "suspend", "part")
    assert by_hand.returncode == 1, "it takes longer than agents are usually waited for"
    assert NO in by_hand.stderr

    with Listener(box.status()["marathon"]["url"]) as events:
        urgent = app("urgent", gpuShare={"memGiB": 12, "highPriority": True})
        box.ok("app", "add", "-", text=json.dumps(urgent))
        box.until("it is refused", lambda: events.of("instance_not_suspended_event"))
        (refused,) = events.of("instance_not_suspended_event")
        told = {"appId": "/part", "takenBy": "/urgent", "gpus": 0, "host": "127.0.0.1"}
        assert refused | told == refused
        assert NO in refused["reason"]
        (task,) = box.tasks("part")
        assert (task["id"], task["suspensionRefused"]["what"]) == (refused["taskId"], "suspend")
        assert "suspension" not in task
        of_part = box.ok("why", "part")
        assert "/urgent" in of_part
        assert refused["reason"] in of_part
        why = box.cli("why", "urgent").stdout
        assert refused["reason"] in why.splitlines()[0]
        assert "/part: 10 GiB" in why
        assert counters(box) == {"not-suspended": 1, "suspended": 0, "preempted": 0}
        box.ok("app", "remove", "urgent")

        box.ok("app", "add", "-", text=json.dumps(app("dear", gpus=1, priority=5)))
        box.until("the other gives way", lambda: events.of("instance_preempted_event"))
        (_, refused) = events.of("instance_not_suspended_event")
        (ended,) = events.of("instance_preempted_event")
        assert (refused["appId"], ended["appId"], ended["takenBy"]) == ("/whole", "/whole", "/dear")
        assert NO in refused["reason"]
        assert refused["reason"] in ended["reason"]
    box.until("the urgent one computes", lambda: "devices 1" in box.log_of("dear"))
    headline = box.cli("why", "whole").stdout.splitlines()[0]
    assert "/dear" in headline
    assert refused["reason"] in headline
    assert counters(box) == {"not-suspended": 2, "suspended": 0, "preempted": 1}
    plain = requests.get(f"{box.status()['marathon']['url']}/metrics/prometheus", timeout=60).text
    assert "not_suspended" in plain.replace("-", "_")
