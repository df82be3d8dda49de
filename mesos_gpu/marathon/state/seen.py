"""What a task was to the queue at the last look, beside what it was made of: most are the same at the next. Pure."""

from __future__ import annotations

from functools import cached_property
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.placement.demand import Demand
from mesos_gpu.queueing.values import Running


class Seen(Struct, frozen=True, dict=True):
    """A task that runs, and whose end was not asked for, as the queue sees it."""

    instance: Instance
    spec: RunSpec
    demand: Demand
    running: Running

    def of(self, instance: Instance, spec: RunSpec, demand: Demand) -> bool:
        """Return whether it was made of these: the very same values, but for what it asks for, which may be equal."""
        same = self.instance is instance and self.spec is spec
        return same and (self.demand is demand or self.demand == demand)

    @cached_property
    def lasts(self) -> bool:
        """Return whether the passing of time does not matter to it: nothing says when it must have ended."""
        return self.running.ends_s in (None, inf)

    def at(self, machine: str) -> Running:
        """Return it on a machine of that name: an agent's is that of its offer."""
        return replace(self.running, machine=machine)
