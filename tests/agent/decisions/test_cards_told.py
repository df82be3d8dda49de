"""Schedulers are told which whole GPUs a task has: once, when it runs."""

from __future__ import annotations

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import events as ev
from mesos_gpu.mesos.shares.gpu_links import labelled_cards
from tests.support.agent.decided import acknowledge_all, connected, end, sent
from tests.support.agent.documents import at, key, run


def test_the_first_running_says_which_cards_and_no_other_status_does() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.Launched(key(), 42, cards=(3, 1)), at())
    handle(state, ev.GpuIll(key(), "GPU 1 is unhealthy", kill=False), at())
    end(state, exit_code=0)
    told = [(status["state"], labelled_cards(status)) for status in acknowledge_all(state)]
    assert told == [("TASK_STARTING", ()), ("TASK_RUNNING", (1, 3)), ("TASK_RUNNING", ()), ("TASK_FINISHED", ())]


def test_a_task_without_gpus_has_no_such_label() -> None:
    state = connected()
    sent(handle(state, run(), at()))
    handle(state, ev.Launched(key(), 42), at())
    assert all("labels" not in status for status in acknowledge_all(state))
