"""The agent's HTTP endpoint about shared GPUs: `/gpu_shares` shows them, `/gpu_shares/set` changes how."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.decisions.permissions import sees_container
from mesos_gpu.agent.gpus.turns import Turns, said_of
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.share_json import named
from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.http import error_response, json_response, read_json
from mesos_gpu.process.operator_frame import Handler, only

log = logging.getLogger(__name__)

CHANGES_GPUS = "modify_resource_provider_configs"
"""The list that says who may change what an agent offers; Mesos has none of its own for GPUs."""


class ShareApi:
    """Shows and changes shares. A change is taken from this machine only."""

    def __init__(self, agent: Agent, viewer_of: Callable[[web.Request], Viewer]) -> None:
        self._agent, self._viewer_of = agent, viewer_of

    def shown(self) -> Mapping[str, Handler]:
        """Return the endpoint that is looked at, by name."""
        return {"gpu_shares": self._show}

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoint that changes something."""
        return {"gpu_shares/set": only("POST", self._set)}

    def cards(self, viewer: Viewer) -> list[Document]:
        """Return the shared cards with those of their containers that may be seen."""
        turns, frameworks = self._turns(), self._agent.state.frameworks
        if turns is None:
            return []
        cards = turns.shown()
        names = {str(task.container_id): (task.key.framework, task.key.task) for task in frameworks.tasks()}
        containers = {one["container_id"] for card in cards for one in [*card["containers"], *card["suspended"]]}
        hidden = [one for one in containers if not sees_container(viewer, frameworks, ContainerId(one))]
        return named(cards, names, hidden)

    def _turns(self) -> Turns | None:
        return None if self._agent.shared_gpus is None else self._agent.shared_gpus.turns

    async def _show(self, request: web.Request) -> web.Response:
        return json_response(self.cards(self._viewer_of(request)), request=request)

    async def _set(self, request: web.Request) -> web.Response:
        """Take `{"card": 0, "policy": 2}`, or `{"container_id": ..., "weight": 4}`; answer with the shared cards."""
        turns = self._turns()
        if not is_from_here(request):
            return error_response(403, "Only this machine may say how its GPUs are shared.")
        if not self._viewer_of(request).may(CHANGES_GPUS):
            return error_response(403, "Not authorized to say how GPUs are shared.")
        if turns is None:
            raise NotFound("this agent shares no GPU (--shared_gpus)")
        try:
            card, container, values, said = said_of(await _object(request))
            if card is not None:
                await turns.set_card(card, values)
            elif container is not None:
                await turns.set_share(container, said)
        except (BadInput, NotFound) as error:
            log.warning("how GPUs are shared was not changed: %s", error)
            raise
        return json_response(self.cards(self._viewer_of(request)), request=request)


async def _object(request: web.Request) -> dict[str, Any]:
    document = await read_json(request)
    if not isinstance(document, dict):
        raise BadInput("the body must be an object in { }")
    return document
