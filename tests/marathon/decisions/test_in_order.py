"""Who gives way, beside what apps with volumes keep."""

from __future__ import annotations

import json

from mesos_gpu.marathon.model.reservations import reservation_labels
from mesos_gpu.marathon.state.actions import Kill
from mesos_gpu.marathon.state.events import Offered, Tick
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
