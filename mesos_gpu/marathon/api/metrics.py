"""/metrics and /metrics/prometheus, and what counts HTTP requests for them.

Source: Marathon metrics/current/DropwizardMetrics.scala, metrics/current/reporters/PrometheusReporter.scala.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mesos_gpu.marathon.api.answers import accepted_types
from mesos_gpu.marathon.engine.metrics import QUANTILES, Metrics
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.state.state import State
from mesos_gpu.process.http import json_response


class MetricsApi:
    """Handlers of /metrics."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get("/metrics", self.show), web.get("/metrics/prometheus", self.show_for_prometheus)]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with everything that is measured, as JSON; for who asks for text, in Prometheus' format."""
        accepted = accepted_types(request)
        if "json" not in accepted and ("text/plain" in accepted or "openmetrics" in accepted):
            return await self.show_for_prometheus(request)
        return json_response(self._scheduler.metrics.document(self._scheduler.state))

    async def show_for_prometheus(self, _: web.Request) -> web.Response:
        """Answer with everything that is measured, in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_Collected(self._scheduler.metrics, self._scheduler.state))
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def measured(metrics: Metrics) -> Middleware:
    """Return the middleware that counts requests and how long they take; streams only count while they last."""

    @web.middleware
    async def middleware(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        began, status = monotonic(), 500
        metrics.requests_active += 1
        metrics.counters["http.requests.size.counter.bytes"] += request.content_length or 0
        try:
            answer = await handler(request)
            status = answer.status
            if isinstance(answer, web.Response) and isinstance(answer.body, bytes):
                metrics.counters["http.responses.size.counter.bytes"] += len(answer.body)
            return answer
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            metrics.requests_active -= 1
            if request.path != "/v2/events":
                metrics.answered(request.method, status, monotonic() - began)

    return middleware


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
