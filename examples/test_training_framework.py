"""Tests of a framework as its author would write them: a Mesos cluster is a fixture away.

python -m pytest examples/test_training_framework.py
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pymesos import MesosSchedulerDriver
from training_framework import Model, Training

from mesos_gpu.framework import framework_info
from mesos_gpu.testing import BoxFactory, MesosBox

PATIENCE_S = 60.0


class HaltingModel(Model):
    """Stops between two steps until the test has done to the cluster what it wanted to do."""

    def __init__(self, workers: int, steps: int, halt_at: int) -> None:
        super().__init__(workers, steps)
        self.halt_at = halt_at
        self.halted, self.go_on = threading.Event(), threading.Event()

    def post(self, rank: int, step: int, gradient: list[float]) -> dict[str, object]:
        if step == self.halt_at:
            self.halted.set()
            self.go_on.wait(PATIENCE_S)
        return super().post(rank, step, gradient)


@contextmanager
def training(box: MesosBox, model: HaltingModel) -> Iterator[Training]:
    with model.serve() as server:
        scheduler = Training(f"http://127.0.0.1:{server.server_port}", model.workers)
        driver = MesosSchedulerDriver(scheduler, framework_info("training"), box.master)
        driver.start()
        try:
            yield scheduler
        finally:
            model.go_on.set()
            driver.stop()
            driver.join()
            server.shutdown()


def test_every_worker_has_a_gpu_of_its_own_and_the_model_is_found(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=[2, 0, 1])
    model = HaltingModel(workers=3, steps=50, halt_at=-1)
    with training(box, model) as scheduler:
        assert scheduler.finished.wait(PATIENCE_S), box.logs()
    assert model.weights == pytest.approx([3, -2], abs=0.05)
    assert [len(gpus) for gpus in model.gpus.values()] == [1, 1, 1]


def test_a_worker_whose_gpu_falls_ill_is_replaced_and_the_others_go_on(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=3, agent_flags={"gpu_unhealthy_action": "kill"})
    model = HaltingModel(workers=2, steps=50, halt_at=10)
    with training(box, model) as scheduler:
        assert model.halted.wait(PATIENCE_S), box.logs()
        before = model.gpus[0]
        box.agents[0].break_gpu(uuid_in(before))
        assert scheduler.replaced.wait(PATIENCE_S), box.logs()
        model.go_on.set()
        assert scheduler.finished.wait(PATIENCE_S), box.logs()
    assert scheduler.attempt == {0: 1, 1: 0}
    assert uuid_in(model.gpus[0]) not in (uuid_in(before), uuid_in(model.gpus[1]))
    assert model.weights == pytest.approx([3, -2], abs=0.05)


def test_training_outlives_the_master(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=2)
    model = HaltingModel(workers=2, steps=50, halt_at=10)
    with training(box, model) as scheduler:
        assert model.halted.wait(PATIENCE_S), box.logs()
        box.fail_over()
        model.go_on.set()
        assert scheduler.finished.wait(PATIENCE_S), box.logs()
    assert scheduler.attempt == {0: 0, 1: 0}, "nobody was started twice"


def uuid_in(gpus: list[str]) -> str:
    """The UUID in the one line of `nvidia-smi -L`."""
    (line,) = gpus
    return line.partition("UUID: ")[2].rstrip(")")
