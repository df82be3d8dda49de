"""The timer of an agent, under a loop whose timers are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.loop.alarm import Alarm


class Handle:
    def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delay_s, self.call, self.cancelled = delay_s, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """What an alarm had its loop call, and when."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now_s, self.made, self.rung = 100.0, list[Handle](), 0
        self.alarm = Alarm(Clock(mono=lambda: self.now_s), self._ring)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        self.made.append(Handle(delay_s, call))
        return self.made[-1]

    def _ring(self) -> None:
        self.rung += 1


def test_what_is_put_off_takes_no_timer_and_what_comes_earlier_one(monkeypatch: Any) -> None:
    timers = Timers(monkeypatch)
    timers.alarm.set(None, 175.0, 300.0)
    assert [one.delay_s for one in timers.made] == [75.0]
    timers.now_s = 115.0
    timers.alarm.set(190.0)
    assert [one.cancelled for one in timers.made] == [False]
    timers.alarm.set(120.0)
    assert [one.delay_s for one in timers.made] == [75.0, 5.0]
    assert timers.made[0].cancelled
    timers.now_s = 120.0
    timers.made[1].call()
    assert timers.rung == 1
    timers.alarm.set(190.0)
    assert timers.made[2].delay_s == 70.0, "it has rung, and is set anew"


def test_nothing_that_is_due_and_a_stop_end_it(monkeypatch: Any) -> None:
    timers = Timers(monkeypatch)
    timers.alarm.set(None, None)
    assert not timers.made
    timers.alarm.set(90.0)
    assert timers.made[0].delay_s == 0.0, "it was due before"
    timers.alarm.set(None)
    assert timers.made[0].cancelled
    timers.alarm.set(200.0)
    timers.alarm.stop()
    timers.alarm.stop()
    assert [one.cancelled for one in timers.made] == [True, True]
