"""The agent's HTTP endpoints about images: which are stored, pulled and removed. From this machine only, to change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.running.images import AgentImages
from mesos_gpu.errors import BadInput, Forbidden, MesosGpuError
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.images.progress import Progress
from mesos_gpu.isolator.injection import should_inject
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from mesos_gpu.process.bodies import parsed, read_body
from mesos_gpu.process.http import error_response, json_response
from mesos_gpu.process.operator_frame import Handler, only
from mesos_gpu.process.requests import JSON

SAY_EVERY_S = 0.2

Body = TypeVar("Body", "_Pull", "_Prune")


class _Prune(msgspec.Struct):
    """What is to be left: at most so many bytes, nothing unused for longer than so many seconds."""

    max_bytes: int | None = None
    max_age_s: float | None = None


class _Pull(msgspec.Struct):
    """The image to pull; without `cached` its source is asked even when it is here."""

    reference: str
    cached: bool = True


def asks_for_driver(config: ImageConfig) -> bool:
    """Tell whether an image gets the NVIDIA driver by what it says itself; a task's label may ask for it, too."""
    return should_inject(config.env, config.labels)


class ImageApi:
    """GET /images, POST /images/pull and /images/prune: POST is for loopback only, and asks who may remove images."""

    def __init__(
        self, images: AgentImages | None, viewer_of: Callable[[web.Request], Viewer] = lambda request: EVERYBODY
    ) -> None:
        self._images, self._viewer_of = images, viewer_of

    def shown(self) -> Mapping[str, Handler]:
        """Return the endpoint that is looked at, by name."""
        return {"images": self._show}

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoints that change something."""
        return {
            "images/pull": only("POST", _from_here(self._allowed(self._pull))),
            "images/prune": only("POST", _from_here(self._allowed(self._prune))),
        }

    async def _show(self, request: web.Request) -> web.Response:
        if self._images is None:
            return json_response({"images": [], "bytes": 0, "pulls": []}, request=request)
        store = self._images.store
        document = {
            "images": [
                {**msgspec.to_builtins(image), "nvidia_driver": asks_for_driver(store.config_of(image.reference))}
                for image in store.images()
            ],
            "bytes": store.bytes,
            "pulls": [progress_shown(progress) for progress in self._images.pulls],
        }
        return json_response(document, request=request)

    async def _pull(self, request: web.Request) -> web.StreamResponse:
        """Pull an image; one JSON object a line tells how far it is, the last has `image` or `error`."""
        images, asked = self._needed(), await _body(request, _Pull)
        steps: asyncio.Queue[Progress] = asyncio.Queue()
        pulling = asyncio.ensure_future(images.pull(asked.reference, steps.put_nowait, cached=asked.cached))
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            await response.prepare(request)
            while not pulling.done():
                await asyncio.wait([pulling], timeout=SAY_EVERY_S)
                step = None
                while not steps.empty():
                    step = steps.get_nowait()
                if step is not None:
                    await response.write(_line({"progress": progress_shown(step)}))
            try:
                image = pulling.result()
            except MesosGpuError as error:
                await response.write(_line({"error": str(error)}))
            else:
                shown = {"reference": str(image.reference), "digest": image.digest, "layers": len(image.layers)}
                await response.write(_line({"image": shown}))
            await response.write_eof()
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)
        return response

    async def _prune(self, request: web.Request) -> web.StreamResponse:
        images, asked = self._needed(), await _body(request, _Prune)
        pruned = await images.prune(asked.max_bytes, asked.max_age_s)
        return json_response({"images": list(pruned.images), "bytes": pruned.bytes}, request=request)

    def _allowed(self, handler: Handler) -> Handler:
        """Let in who may prune images: Mesos has no other list about images."""

        async def asked(request: web.Request) -> web.StreamResponse:
            if not self._viewer_of(request).may("prune_images"):
                raise Forbidden
            return await handler(request)

        return asked

    async def prune_all(self) -> None:
        """Remove all images that nothing uses. Raises BadInput on an agent without images."""
        await self._needed().prune(0, None)

    def _needed(self) -> AgentImages:
        if self._images is None:
            raise BadInput("This agent runs no images: it was started without --image_providers=docker")
        return self._images


def progress_shown(progress: Progress) -> Document:
    """Return how far a pull is, as /images shows it."""
    return {**msgspec.to_builtins(progress), "text": str(progress)}


def _line(document: Document) -> bytes:
    return msgspec.json.encode(document) + b"\n"


async def _body(request: web.Request, kind: type[Body]) -> Body:
    if request.content_type != JSON:
        raise web.HTTPUnsupportedMediaType(text=f"Expecting 'Content-Type' of {JSON}")
    return parsed(await read_body(request) or b"{}", kind)


def _from_here(handler: Handler) -> Handler:
    async def guarded(request: web.Request) -> web.StreamResponse:
        if not is_from_here(request):
            return error_response(403, "Only this machine may pull and remove images.")
        return await handler(request)

    return guarded
