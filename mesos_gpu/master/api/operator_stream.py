"""SUBSCRIBE of the operator API: one stream of what happens in the cluster."""

from __future__ import annotations

import uuid

from aiohttp import web

from mesos_gpu.master.api.event_stream import TypedStream
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.http import EventStream

EVENT = "mesos.v1.master.Event"


async def subscribe(engine: Engine, request: web.Request, kind: str, viewer: Viewer) -> web.StreamResponse:
    """Answer SUBSCRIBE with what `viewer` may see, of content type `kind`, until either side ends the stream."""
    response = await EventStream.open(request, content_type=kind, together=True)
    stream = TypedStream(response, kind, EVENT, engine.state.settings.heartbeat_interval_s)
    stream_id = str(uuid.uuid4())
    try:
        engine.watch(stream_id, stream, viewer)
        await response.closed()
    finally:
        stream.close()
        engine.unwatch(stream_id)
    return response.response
