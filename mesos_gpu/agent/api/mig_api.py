"""The agent's HTTP endpoint that divides GPUs into MIG instances: `POST /gpus/mig`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.api.share_api import CHANGES_GPUS
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.mig.keeper import MigKeeper
from mesos_gpu.errors import BadInput, Conflict, DeviceError, Forbidden, NotFound
from mesos_gpu.gpu.mig_layout import MigPlan, plan_shown
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.bodies import parsed, read_body
from mesos_gpu.process.http import json_response
from mesos_gpu.process.operator_frame import Handler, only


class MigAsked(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked: a GPU by index or UUID, its profiles as people write them; `plan`: only say what would be done."""

    gpu: str
    profiles: str
    plan: bool = False


class MigApi:
    """Divides GPUs, from this machine only; answers with what stays, what is ended and what is made."""

    def __init__(self, agent: Agent, viewer_of: Callable[[web.Request], Viewer]) -> None:
        self._agent, self._viewer_of = agent, viewer_of

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoint."""
        return {"gpus/mig": only("POST", self._divide)}

    async def _divide(self, request: web.Request) -> web.Response:
        if not is_from_here(request, socket=True):
            raise Forbidden("Only this machine may divide its GPUs.")
        if not self._viewer_of(request).may(CHANGES_GPUS):
            raise Forbidden("Not authorized to divide GPUs.")
        keeper = self._agent.mig
        if keeper is None:
            raise NotFound("this agent gives no MIG instances: start it with --mig_strategy=single")
        try:
            asked = parsed(await read_body(request), MigAsked)
        except BadInput as error:
            raise BadInput(f'say {{"gpu": "0", "profiles": "3g.20gb,2x1g.5gb"}}: {error}') from None
        try:
            made = await self._made(keeper, asked)
        except DeviceError as error:
            raise Conflict(str(error)) from None
        return json_response(plan_shown(made), request=request)

    async def _made(self, keeper: MigKeeper, asked: MigAsked) -> MigPlan:
        if asked.plan:
            return await keeper.plan(asked.gpu, asked.profiles)
        return await keeper.divide(asked.gpu, asked.profiles, self._agent.account)
