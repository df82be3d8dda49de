"""The agent's HTTP endpoints for holders of GPUs outside Mesos: `/gpus/leases`, and `/gpus/driver` for who makes them.

They are taken from this machine only: what shows that a holder is there are its processes, cgroups and folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.decisions.lending import standings
from mesos_gpu.agent.decisions.permissions import sees_container
from mesos_gpu.agent.gpus.lending_desk import LendingDesk
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.leases import Lease, read_lease, read_watch
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.errors import BadInput, Conflict, Forbidden, Unavailable
from mesos_gpu.isolator.ledger import Holder, HolderKind
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from mesos_gpu.process.http import json_response, read_json
from mesos_gpu.process.operator_frame import Handler
from mesos_gpu.process.requests import method_not_allowed

_PATH = "gpus/leases"
TAKES_GPUS = "launch_standalone_containers"
"""The list that says who may have GPUs for what is no task; Mesos has none of its own for leases."""


class LeaseApi:
    """Leases over HTTP: POST lends, GET lists, PUT watches more of a holder, DELETE gives back."""

    def __init__(self, agent: Agent, viewer_of: Callable[[web.Request], Viewer] = lambda request: EVERYBODY) -> None:
        self._agent, self._viewer_of = agent, viewer_of

    def shown(self) -> Mapping[str, Handler]:
        """Return the endpoint that is looked at."""
        return {"gpus/driver": self._driver}

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoint that changes something."""
        return {_PATH: self._leases}

    async def _driver(self, request: web.Request) -> web.Response:
        return json_response(self._desk().driver(), request=request)

    async def _leases(self, request: web.Request) -> web.Response:
        if request.method not in ("GET", "HEAD") and not self._viewer_of(request).may(TAKES_GPUS):
            raise Forbidden("Not authorized to lend or take back GPUs of this agent")
        if self._agent.desk is None and request.method == "GET":
            return json_response([], request=request)
        desk = self._desk()
        named = request.match_info["path"].rpartition(_PATH)[2].strip("/")
        match request.method, bool(named):
            case "GET", False:
                return json_response([desk.shown(lease) for lease in desk.lender.leases], request=request)
            case "GET", True:
                return json_response(desk.handed(desk.lender.get(named)), request=request)
            case "POST", False:
                _check_local(request)
                lease = self._lend(desk, await read_json(request), self._viewer_of(request))
                return _answer(201, desk, lease)
            case "PUT", True:
                _check_local(request)
                document = await read_json(request)
                if not isinstance(document, Mapping):
                    raise BadInput('what is to be watched is told with a JSON object such as {"pid": 4711}')
                return _answer(200, desk, desk.lender.watch_too(named, read_watch(document)))
            case "DELETE", True:
                _check_local(request)
                desk.lender.end(named, "it was given back")
                return web.Response(status=204)
            case _:
                return method_not_allowed(request, *(("GET", "PUT", "DELETE") if named else ("GET", "POST")))

    def _lend(self, desk: LendingDesk, document: object, viewer: Viewer) -> Lease:
        asked, watch = read_lease(document)
        desk.isolator.tell(self._agent.account())
        return desk.lender.lend(asked, watch, standings(desk.isolator.ledger, self._reason, self._names(desk, viewer)))

    def _reason(self, uuid: str) -> str:
        """Return why a GPU is withdrawn."""
        illness = None if self._agent.gpus is None else self._agent.gpus.illness(uuid)
        return "withdrawn" if illness is None else f"{illness.condition.value}: {illness.reason}"

    def _names(self, desk: LendingDesk, viewer: Viewer) -> Callable[[Holder], str]:
        """Return what describes a holder of GPUs to `viewer`."""
        frameworks = self._agent.state.frameworks
        tasks = {task.container_id: task for task in frameworks.tasks()}
        leases = {lease.id: lease for lease in desk.lender.leases}

        def name(holder: Holder) -> str:
            if holder.kind is HolderKind.LEASE:
                lease = leases.get(holder.id)
                return "a change of MIG instances" if lease is None else f"{lease.words}, lease {lease.id}"
            container = ContainerId(holder.id)
            return _words(container, tasks.get(container), sees=sees_container(viewer, frameworks, container))

        return name

    def _desk(self) -> LendingDesk:
        if self._agent.desk is None:
            raise Conflict("this agent hands out no GPUs: its --isolation has no gpu/nvidia")
        return self._agent.desk


def _words(container: ContainerId, task: Task | None, *, sees: bool) -> str:
    if not sees:
        return "a container of Mesos"
    if task is None:
        return f"Mesos: container {container}"
    return f"Mesos: task {task.key.task} of framework {task.key.framework}"


def _check_local(request: web.Request) -> None:
    """Refuse who comes from another machine; a domain socket has no address. Raises Forbidden."""
    if not is_from_here(request, socket=True):
        raise Forbidden("GPUs are lent to holders on this machine only.")


def _answer(status: int, desk: LendingDesk, lease: Lease) -> web.Response:
    try:
        document: Document = desk.handed(lease)
    except Unavailable:
        if status == 201:
            desk.lender.end(lease.id, "its device nodes are not available")
        raise
    return web.Response(status=status, body=msgspec.json.encode(document), content_type="application/json")
