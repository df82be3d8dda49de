"""Who gives way, beside what apps with volumes keep."""

from __future__ import annotations

import json

from msgspec.structs import replace

from mesos_gpu.marathon.model.reservations import reservation_labels
from mesos_gpu.marathon.state.actions import Kill
from mesos_gpu.marathon.state.events import Offered, Tick
from mesos_gpu.marathon.views.views import queue_view
from mesos_gpu.mesos.ids import FrameworkId
from tests.support.marathon.builders import ROLE, Run, app, offer, only, scalar, status
from tests.support.marathon.residents import SHARED


def test_what_is_kept_for_a_volume_of_another_is_no_room_for_who_waits() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/cheap", gpus=1, preemptible=True))
    run.do(Offered([offer("O1", gpus=1)]))
    (task,) = run.tasks("/cheap")
    run.do(status(task))
    run.put(app("/dear", gpus=1, priority=5), force=True)
    labels = json.loads(reservation_labels(FrameworkId("another"), "keeper.1"))
    kept = {**scalar("gpus", 1), "reservations": [{"type": "DYNAMIC", "role": ROLE, "labels": labels}]}
    run.do(Offered([offer("O2", agent="S1", host="h1", extra=[kept])]), after_s=1.0)
    asked = {kill.task_id for _ in range(5) for kill in only(run.do(Tick(), after_s=2.0), Kill)}
    assert asked == {task}


def test_who_was_promised_machines_is_not_overtaken_by_who_comes_later_with_equal_rank() -> None:
    run = Run(settings=replace(SHARED, priority_aging_s=100.0, decline_offer_s=1000.0))
    run.subscribe()
    run.put(app("/r", instances=2, gpus=2, maxRuntimeSeconds=600))
    run.do(Offered([offer(f"O{n}", agent=f"S{n}", host=f"h{n}", gpus=2) for n in range(2)]))
    for task in run.tasks("/r"):
        run.do(status(task))
    run.put(app("/z", gpus=2, gang={"size": 2}, maxRuntimeSeconds=60))
    run.do(Tick(), after_s=5.0)
    assert run.state.places["/z"].at_s is not None
    run.do(Tick(), after_s=94.0)
    run.put(app("/a", gpus=2, gang={"size": 2}, priority=1, maxRuntimeSeconds=60))
    run.do(Tick(), after_s=5.0)
    (z,), (a,) = (run.state.instances_of(name)[:1] for name in ("/z", "/a"))
    assert a.since_s == z.since_s + 100.0, "a point of priority is worth what /z has waited longer"
    order = {item["app"]["id"]: item["order"]["place"] for item in queue_view(run.state, run.moment)}
    assert order == {"/z": 1, "/a": 2}
    assert run.state.places["/a"].behind == "/z"
