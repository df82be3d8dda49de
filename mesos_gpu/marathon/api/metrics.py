"""/metrics and /metrics/prometheus, and what counts HTTP requests for them.

Source: Marathon metrics/current/DropwizardMetrics.scala, metrics/current/reporters/PrometheusReporter.scala.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Middleware

from mesos_gpu.marathon.api.answers import accepted_types
from mesos_gpu.marathon.engine.metrics import Metrics
from mesos_gpu.marathon.engine.scheduler import Scheduler
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
        # Its library takes memory that most Marathons never need.
        from mesos_gpu.marathon.api.prometheus import CONTENT_TYPE, text

        body = text(self._scheduler.metrics, self._scheduler.state)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


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
