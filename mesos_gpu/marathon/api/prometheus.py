"""All that is measured, in Prometheus' text format.

Source: Marathon metrics/current/reporters/PrometheusReporter.scala.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mesos_gpu.marathon.engine.metrics import QUANTILES, Metrics
from mesos_gpu.marathon.state.state import State

CONTENT_TYPE = CONTENT_TYPE_LATEST


def text(metrics: Metrics, state: State) -> bytes:
    """Return the metrics of a Marathon in this state."""
    registry = CollectorRegistry()
    registry.register(_Collected(metrics, state))
    return generate_latest(registry)


class _Collected(Collector):
    """What is measured, for prometheus-client: dots and dashes become underscores (Marathon docs/docs/metrics.md)."""

    def __init__(self, metrics: Metrics, state: State) -> None:
        self._metrics, self._state = metrics, state

    def collect(self) -> Iterator[Metric]:
        for name, value in self._metrics.gauges(self._state).items():
            yield self._one(name, "gauge", value)
        for name, count in sorted(self._metrics.counters.items()):
            # Not a counter for Prometheus, which would want another name for it.
            yield self._one(name, "gauge", count)
        for name, meter in self._metrics.meters().items():
            base = name.removesuffix(".meter")
            yield self._one(f"{base}.count.meter", "gauge", meter.count)
            for kind, rate in meter.rates().items():
                yield self._one(f"{base}.{kind}.meter", "gauge", rate)
        for name, timer in self._metrics.timers().items():
            family = Metric(self._name(name), name, "summary")
            spread = timer.spread()
            for quantile, share in QUANTILES:
                family.add_sample(self._name(name), {"quantile": str(share)}, spread[quantile])
            family.add_sample(f"{self._name(name)}_count", {}, timer.meter.count)
            family.add_sample(f"{self._name(name)}_sum", {}, timer.sum_s)
            yield family

    def _one(self, name: str, kind: str, value: float) -> Metric:
        family = Metric(self._name(name), name, kind)
        family.add_sample(self._name(name), {}, value)
        return family

    def _name(self, name: str) -> str:
        return self._metrics.name(name).replace(".", "_").replace("-", "_")
