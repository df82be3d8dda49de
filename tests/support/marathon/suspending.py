"""Two apps of which one wants what the other has of GPUs, and what is told of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.decisions.suspending import OFFERED_S
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Action, Publish, Tell
from mesos_gpu.marathon.state.events import Offered, Tick
from mesos_gpu.marathon.views.views import app_view
from mesos_gpu.mesos.shares.suspending import WORDS
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, status
from tests.support.sharing.parts import ranges

SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)
CHEAP = app("/cheap", gpus=1, cpus=0.1, mem=32, preemptible=True, labels={"GPU_PREEMPTION": "suspend"})
DEAR = app("/dear", gpus=1, cpus=0.1, mem=32, priority=5)


def offered(run: Run, name: str = "O1", gpus: int = 1, **more: Any) -> Sequence[Action]:
    return run.do(Offered([offer(name, agent="S1", host="h1", gpus=gpus, **more)]))


def told(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [(tell.task_id, WORDS[tell.data]) for tell in only(actions, Tell)]


def changes(actions: Sequence[Action]) -> list[tuple[str, dict[str, Any]]]:
    """Return what is told of suspensions, each with what is said of it."""
    said = ("taskId", "takenBy", "gpus", "reason")
    return [
        (event.kind, {key: event.fields[key] for key in said if key in event.fields})
        for event in only(actions, Publish)
        if event.kind.endswith(("suspended_event", "resumed_event", "preempted_event"))
    ]


def running(cheap: dict[str, Any] = CHEAP) -> tuple[Run, str]:
    """Return a run in which the cheap app has the one GPU, and its task."""
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(cheap)
    offered(run)
    (task,) = run.tasks("/cheap")
    run.do(status(task))
    return run, task


def contended(cheap: dict[str, Any] = CHEAP, dear: dict[str, Any] = DEAR) -> tuple[Run, str, list[Action]]:
    """Return a run in which the one GPU is the cheap app's and the dear one wants it, what was done about it."""
    run, task = running(cheap)
    run.put(dear)
    offered(run, "O2", gpus=0)
    run.do(Tick(), after_s=1.0)
    return run, task, list(run.do(Tick(), after_s=4.0))


def shown(run: Run, app_id: str = "/cheap") -> Any:
    (task,) = app_view(run.state, run.state.app(app_id), ["tasks"])["tasks"]  # type: ignore[arg-type]
    return task


def suspension(run: Run, app_id: str = "/cheap") -> Any:
    return shown(run, app_id).get("suspension", {}).get("state")


def refusal(run: Run, app_id: str = "/cheap") -> Any:
    return shown(run, app_id).get("suspensionRefused")


def word(task: str, message: str) -> Any:
    return status(task, message=message)


PART = app("/part", cpus=0.1, mem=32, preemptible=True, gpuShare={"memGiB": 10, "weight": 2})
HIGH = app("/high", cpus=0.1, mem=32, gpuShare={"memGiB": 8, "highPriority": True})
CARD = [{"name": "gpu_shared_cards", "type": "TEXT", "text": {"value": "0=GPU-a/16/watcher"}}]


def card_offered(
    run: Run, name: str, memory: tuple[int, int], slices: tuple[int, int] = (2, 24), **more: Any
) -> Sequence[Action]:
    """Offer what is free of one shared card."""
    document = offer(name, agent="S1", host="h1", **more)
    parts = [ranges("gpu_mem", memory), ranges("gpu_slices", slices)]
    return run.do(Offered([{**document, "resources": [*document["resources"], *parts], "attributes": CARD}]))


def contended_card(part: dict[str, Any] = PART, high: dict[str, Any] = HIGH) -> tuple[Run, str, list[Action]]:
    """Return a run in which one card is mostly the first app's and the second wants half, what was done about it."""
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(part)
    card_offered(run, "O1", (0, 15), (0, 24))
    (task,) = run.tasks("/part")
    run.do(status(task))
    run.put(high)
    card_offered(run, "O2", (10, 15))
    assert next_tick_s(run.state, SHARED, run.moment) is not None
    return run, task, list(run.do(Tick(), after_s=OFFERED_S))
