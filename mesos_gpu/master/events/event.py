"""All that can happen to a master, under one name."""

from __future__ import annotations

from typing import TypeAlias

from mesos_gpu.master.events.agents import AgentEvent
from mesos_gpu.master.events.operators import OperatorEvent
from mesos_gpu.master.events.schedulers import SchedulerEvent
from mesos_gpu.master.events.stored import StoredEvent
from mesos_gpu.master.events.timers import TimerEvent

Event: TypeAlias = SchedulerEvent | AgentEvent | OperatorEvent | StoredEvent | TimerEvent
