"""The HTTP API of this Marathon, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from mesos_gpu.marathon.api_answers import framed
from mesos_gpu.marathon.api_apps import AppsApi
from mesos_gpu.marathon.api_cluster import ClusterApi
from mesos_gpu.marathon.api_groups import GroupsApi
from mesos_gpu.marathon.api_pods import PodsApi
from mesos_gpu.marathon.scheduler import Scheduler
from mesos_gpu.process.http import make_app


def make_api(
    scheduler: Scheduler,
    *,
    info: Callable[[], dict[str, Any]],
    leader: Callable[[], str],
    credentials: str | None = None,
) -> web.Application:
    """Return the application. `info` is what /v2/info shows, `leader` our host:port, once they are known."""
    app = make_app()
    app.middlewares.append(framed(lambda: f"http://{leader()}", credentials))
    app.add_routes(
        [
            *AppsApi(scheduler).routes(),
            *PodsApi(scheduler).routes(),
            *GroupsApi(scheduler).routes(),
            *ClusterApi(scheduler, info, leader).routes(),
        ]
    )
    return app
