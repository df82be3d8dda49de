"""What Marathon counts and measures, under the names that Marathon has for it since 1.7. Pure.

Source: Marathon docs/docs/metrics.md; Dropwizard Metrics for the shape of /metrics, and the weights of the rates of a
meter.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from mesos_gpu.errors import TooMany
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import Action, Answer, Decline, Launch, Publish, Revive, Suppress
from mesos_gpu.marathon.state.events import Event, Offered, Status
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.views.tree import current_root

PREFIX = "marathon"
_STAGED = frozenset({Phase.PROVISIONED, Phase.STAGING, Phase.STARTING})
_PUBLISHED = {
    "instance_not_resumed_event": "instances.not-resumed.counter",
    "instance_not_suspended_event": "instances.not-suspended.counter",
    "instance_preempted_event": "instances.preempted.counter",
    "instance_resumed_event": "instances.resumed.counter",
    "instance_suspended_event": "instances.suspended.counter",
}
"""Events that are counted, each with its counter."""
_COUNTERS = (
    *_PUBLISHED.values(),
    "deployments.counter",
    "deployments.dismissed.counter",
    "http.requests.size.counter.bytes",
    "http.responses.event-stream.size.counter.bytes",
    "http.responses.size.counter.bytes",
    "mesos.calls.revive.counter",
    "mesos.calls.suppress.counter",
    "mesos.offer-operations.launch-group.counter",
    "mesos.offer-operations.launch.counter",
    "mesos.offer-operations.reserve.counter",
    "mesos.offers.declined.counter",
    "mesos.offers.incoming.counter",
    "mesos.offers.used.counter",
    "tasks.launched.counter",
)
METHODS = ("GET", "POST", "PUT", "DELETE")
QUANTILES = (("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99), ("p999", 0.999))
_KEPT = 1024
_TICK_S = 5.0


class Meter:
    """How often something happens: all in all, and as averages over 1, 5 and 15 minutes that forget by and by."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.count = 0
        self._clock, self._began_s = clock, clock()
        self._ticked_s, self._fresh = self._began_s, 0
        self._rates: dict[int, float | None] = dict.fromkeys((1, 5, 15))

    def mark(self) -> None:
        """Note that it has happened."""
        self._catch_up()
        self.count += 1
        self._fresh += 1

    def rates(self) -> dict[str, float]:
        """Return the rates a second."""
        self._catch_up()
        lasted_s = self._clock() - self._began_s
        shown = {f"m{minutes}_rate": rate or 0.0 for minutes, rate in self._rates.items()}
        return {**shown, "mean_rate": self.count / lasted_s if lasted_s > 0 else 0.0}

    def _catch_up(self) -> None:
        ticks = int((self._clock() - self._ticked_s) / _TICK_S)
        if ticks < 1:
            return
        self._ticked_s += ticks * _TICK_S
        now, self._fresh = self._fresh / _TICK_S, 0
        for minutes, rate in self._rates.items():
            keep = math.exp(-_TICK_S / 60 / minutes)
            first = now if rate is None else rate + (1 - keep) * (now - rate)
            self._rates[minutes] = first * keep ** (ticks - 1)


class Timer:
    """How long something takes, in seconds: the latest 1024 times, and how often it happens."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.meter = Meter(clock)
        self.sum_s = 0.0
        self._latest: deque[float] = deque(maxlen=_KEPT)

    def took(self, seconds: float) -> None:
        """Note that it has happened, and how long it took."""
        self.meter.mark()
        self.sum_s += seconds
        self._latest.append(seconds)

    def spread(self) -> dict[str, float]:
        """Return the smallest, largest and mean time, the deviation and the quantiles."""
        values = sorted(self._latest) or [0.0]
        at = {name: values[min(len(values) - 1, int(share * len(values)))] for name, share in QUANTILES}
        mean = statistics.fmean(values)
        return {"min": values[0], "max": values[-1], "mean": mean, "stddev": statistics.pstdev(values, mean), **at}


class Metrics:
    """Everything that is counted in one process. Times are seconds since the epoch."""

    def __init__(self, clock: Callable[[], float], prefix: str = PREFIX) -> None:
        """`prefix` is the first part of every name (--metrics_name_prefix)."""
        self.clock, self.began_s = clock, clock()
        self._prefix = prefix
        self.leading_since_s: float | None = None
        self.counters: Counter[str] = Counter(dict.fromkeys(_COUNTERS, 0))
        self.requests_active = self.listeners = 0
        self.measured: dict[str, float] = {}
        """What was last measured from outside (sampler.py), by name; nothing before that."""
        self.durations = {"": Timer(clock), **{method: Timer(clock) for method in METHODS}}
        self.decisions = Timer(clock)
        self.responses = {f"{digit}xx": Meter(clock) for digit in range(1, 6)}

    def event(self, event: Event) -> None:
        """Count what came from Mesos."""
        if isinstance(event, Offered):
            self.counters["mesos.offers.incoming.counter"] += len(event.offers)
        elif isinstance(event, Status):
            state = str(event.status.get("state", "")).lower().replace("_", "-")
            self.counters[f"mesos.task-updates.{state}.counter"] += 1

    def action(self, action: Action) -> None:
        """Count what is done."""
        if isinstance(action, Launch):
            self.counters["mesos.offers.used.counter"] += 1
            self.counters["mesos.offer-operations.launch.counter"] += bool(action.task_infos)
            self.counters["mesos.offer-operations.launch-group.counter"] += len(action.groups)
            self.counters["mesos.offer-operations.reserve.counter"] += sum(
                operation.get("type") == "RESERVE" for operation in action.operations
            )
            self.counters["tasks.launched.counter"] += len(action.task_ids)
        elif isinstance(action, Decline):
            self.counters["mesos.offers.declined.counter"] += len(action.offer_ids)
        elif isinstance(action, Revive):
            self.counters["mesos.calls.revive.counter"] += 1
        elif isinstance(action, Suppress):
            self.counters["mesos.calls.suppress.counter"] += 1
        elif isinstance(action, Publish) and (counter := _PUBLISHED.get(action.kind)) is not None:
            self.counters[counter] += 1
        elif isinstance(action, Answer):
            self.counters["deployments.counter"] += 1

    def refused(self, error: Exception) -> None:
        """Count a call that was not taken."""
        if isinstance(error, TooMany):
            self.counters["deployments.dismissed.counter"] += 1

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count an HTTP request."""
        self.durations[""].took(seconds)
        if method in self.durations:
            self.durations[method].took(seconds)
        meter = self.responses.get(f"{status // 100}xx")
        if meter is not None:
            meter.mark()

    def gauges(self, state: State) -> dict[str, float]:
        """Return what there is now, by name; the GPUs are ours."""
        instances = state.instances.values()
        now_s = self.clock()
        pods = sum(spec.is_pod for spec in state.apps())
        # Of apps, pods, and runs of jobs.
        asked = {i.id: spec.gpus for i in instances if (spec := state.app(i.app_id)) is not None}
        suspended = {i.id for i in instances if i.active and i.task is not None and i.task.away}
        held = sum(asked.get(i.id, 0) for i in instances if i.active and i.id not in suspended)
        waiting = sum(gpus for key, gpus in asked.items() if key in state.waiting)
        return {
            "apps.active.gauge": len(state.versions) - pods,
            "deployments.active.gauge": len(state.deployments),
            "gpus.in-use.gauge": held,
            "gpus.waiting.gauge": waiting,
            "pods.active.gauge": pods,
            "groups.active.gauge": 1 + len(current_root(state).groups),
            "http.event-streams.active.gauge": self.listeners,
            "http.requests.active.gauge": self.requests_active,
            "instances.inflight-kills.gauge": len(state.kills),
            "instances.running.gauge": sum(i.phase is Phase.RUNNING for i in instances),
            "instances.suspended.gauge": len(suspended),
            "instances.staged.gauge": sum(i.phase in _STAGED for i in instances),
            "leadership.duration.gauge.seconds": 0 if self.leading_since_s is None else now_s - self.leading_since_s,
            "uptime.gauge.seconds": now_s - self.began_s,
            **self.measured,
        }

    def timers(self) -> Mapping[str, Timer]:
        """Return the timers by name; how long it takes to decide about an event is ours."""
        return {
            "decisions.duration.timer.seconds": self.decisions,
            **{
                f"http.requests.{method.lower()}{'.' if method else ''}duration.timer.seconds": timer
                for method, timer in self.durations.items()
            },
        }

    def meters(self) -> Mapping[str, Meter]:
        """Return the meters by name."""
        return {f"http.responses.{kind}.rate.meter": meter for kind, meter in self.responses.items()}

    def name(self, name: str) -> str:
        """Return the name under which something is shown."""
        return f"{self._prefix}.{name}"

    def document(self, state: State) -> dict[str, Any]:
        """Return what GET /metrics answers."""
        rates = {"units": "events/second"}
        return {
            "version": "4.0.0",
            "gauges": {self.name(name): {"value": value} for name, value in self.gauges(state).items()},
            "counters": {self.name(name): {"count": count} for name, count in sorted(self.counters.items())},
            "histograms": {},
            "meters": {
                self.name(name): {"count": meter.count, **meter.rates(), **rates}
                for name, meter in self.meters().items()
            },
            "timers": {
                self.name(name): {
                    "count": timer.meter.count,
                    **timer.spread(),
                    **timer.meter.rates(),
                    "duration_units": "seconds",
                    "rate_units": "calls/second",
                }
                for name, timer in self.timers().items()
            },
        }
