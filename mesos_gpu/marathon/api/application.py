"""The HTTP API of this Marathon, put together."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from mesos_gpu.marathon.api.advice import AdviceApi
from mesos_gpu.marathon.api.answers import authentication_and_errors
from mesos_gpu.marathon.api.apps import AppsApi
from mesos_gpu.marathon.api.browsers import BrowsersApi
from mesos_gpu.marathon.api.cluster import ClusterApi
from mesos_gpu.marathon.api.gate import HttpSettings, compression, concurrency_limit, cors
from mesos_gpu.marathon.api.groups import GroupsApi
from mesos_gpu.marathon.api.jobs import JobsApi
from mesos_gpu.marathon.api.leader import LeaderApi
from mesos_gpu.marathon.api.mesos_door import MesosDoor
from mesos_gpu.marathon.api.metrics import MetricsApi, measured
from mesos_gpu.marathon.api.openapi_routes import OpenApi
from mesos_gpu.marathon.api.page import PageApi
from mesos_gpu.marathon.api.plan import PlanApi
from mesos_gpu.marathon.api.pods import PodsApi
from mesos_gpu.marathon.api.proxy import LeaderProxy
from mesos_gpu.marathon.api.system import SystemApi
from mesos_gpu.marathon.api.usage import UsageApi
from mesos_gpu.marathon.api.why import SmallestApi, WhyApi
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.process.http import make_app

DEFAULTS = HttpSettings()


def make_api(
    scheduler: Scheduler,
    *,
    info: Callable[[], dict[str, Any]],
    election: Election,
    http: HttpSettings = DEFAULTS,
    mesos_tls: ssl.SSLContext | None = None,
) -> web.Application:
    """Return the application. `info` is what /v2/info shows, once that is known.

    Whoever `election` says leads answers; the others pass requests on. With `mesos_tls` the page asks a master and
    agents of https.
    """
    app, proxy, system, browsers = make_app(), LeaderProxy(election, http), SystemApi(), BrowsersApi()
    door = MesosDoor(lambda: info()["marathon_config"].get("mesos_leader_ui_url"), mesos_tls)
    # After the limit of a body, before everything else.
    if http.origins:
        cors(app, http.origins)
    if http.max_requests is not None:
        app.middlewares.append(concurrency_limit(http.max_requests))
    app.middlewares.append(proxy.middleware())
    if http.compression:
        app.middlewares.append(compression)
    app.middlewares.append(measured(scheduler.metrics))
    app.middlewares.append(browsers.middleware())
    app.middlewares.append(authentication_and_errors(election.url, http, browsers.knows))
    app.on_cleanup.extend([lambda _: proxy.close(), lambda _: system.close(), lambda _: door.close()])
    plans = PlanApi(scheduler, door)
    smallest = SmallestApi(scheduler, plans)
    app.add_routes(
        _with_and_without_slash(
            *AppsApi(scheduler).routes(),
            *PodsApi(scheduler).routes(),
            *JobsApi(scheduler).routes(),
            *plans.routes(),
            *smallest.routes(),
            *UsageApi(scheduler).routes(),
            *GroupsApi(scheduler).routes(),
            *ClusterApi(scheduler, info).routes(),
            *LeaderApi(scheduler, election).routes(),
            *MetricsApi(scheduler).routes(),
            *OpenApi().routes(),
            *system.routes(),
        )
    )
    why = WhyApi(scheduler, door, info, smallest)
    advice = AdviceApi(lambda: scheduler.settings.rules, why.agents, why.rules)
    app.add_routes(browsers.routes())
    app.add_routes(PageApi(door, why, advice).routes())
    return app


def _with_and_without_slash(*routes: web.RouteDef) -> Iterator[web.RouteDef]:
    """Yield each route, and beside it the same with a slash at its end: JAX-RS takes both (specification 3.7.3)."""
    for route in routes:
        yield route
        if not route.path.endswith((".+}", ".*}")):
            yield web.RouteDef(route.method, f"{route.path}/", route.handler, route.kwargs)
