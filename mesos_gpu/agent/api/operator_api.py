"""The agent's HTTP endpoints for operators, as Mesos': what of an agent the frame of `process.operator_frame` shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from mesos_gpu.agent.api.access import Access, use_of
from mesos_gpu.agent.api.container_api import ContainerApi
from mesos_gpu.agent.api.containers_shown import ContainersShown
from mesos_gpu.agent.api.gpu_api import GpuApi
from mesos_gpu.agent.api.image_api import ImageApi
from mesos_gpu.agent.api.lease_api import LeaseApi
from mesos_gpu.agent.api.sandboxes_shown import SandboxesShown
from mesos_gpu.agent.api.v1_api import Sources, V1Api
from mesos_gpu.agent.cluster.master_link import CAPABILITIES, PROCESS_ID
from mesos_gpu.agent.decisions import permissions
from mesos_gpu.agent.decisions.executor_steps import nested_grace_s
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.loop.executor_api import ExecutorApi
from mesos_gpu.agent.running.images import AgentImages
from mesos_gpu.agent.views import views_v1
from mesos_gpu.agent.views.metrics import agent_metrics
from mesos_gpu.agent.views.state_json import (
    attributes_shown,
    frameworks_shown,
    resources_shown,
    total_resources,
    used_resources,
)
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import OPEN
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.authentication import Gate
from mesos_gpu.process.build import build
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.http import json_response
from mesos_gpu.process.operator_frame import OperatorFrame, Parts
from mesos_gpu.process.system_metrics import system_metrics
from mesos_gpu.ui import landing


class OperatorApi:
    """All HTTP of an agent. `flags` are shown as they were given, as text; `log_file` is the agent's log.

    With `json_suffixes`, `/state.json` is `/state`, as it was before Mesos 1.0.
    """

    def __init__(
        self,
        agent: Agent,
        flags: Mapping[str, str],
        images: AgentImages | None = None,
        *,
        json_suffixes: bool = False,
        access: Access | None = None,
        log_file: str | None = None,
    ) -> None:
        self._agent, self._flags, self._log_file = agent, flags, log_file
        gate, acls = (Gate(), OPEN) if access is None else (access.gate, access.acls)
        sandboxes = SandboxesShown(lambda: agent.state, log_file)
        gpus, stored = GpuApi(agent, self._viewer), ImageApi(images, self._viewer)
        leases, containers = LeaseApi(agent, self._viewer), ContainersShown(agent, gpus, self._viewer)
        executors = ExecutorApi(
            agent.state.frameworks,
            agent.streams,
            post=agent.post,
            ready=lambda: agent.takes_executors,
            pid_of=agent.containers.pid_of,
            issues_tokens=lambda: agent.state.identity.executor_key is not None,
        )
        self._frame = OperatorFrame(
            Parts(
                program="agent",
                process_id=PROCESS_ID,
                flags=flags,
                metrics=self._numbers,
                files=FilesApi(
                    SandboxFiles(sandboxes.folder_of), sandboxes.folders, acls=acls, may_see=sandboxes.may_see
                ),
                use_of=use_of,
                shown={
                    "state": self._state,
                    "containers": containers.containers,
                    "monitor/statistics": containers.statistics,
                },
                own={**gpus.shown(), **leases.shown(), **stored.shown()},
                called={
                    "api/v1": lambda request: self._v1.handle(request),
                    "api/v1/executor": executors.handle,
                    **gpus.called(),
                    **leases.called(),
                    **stored.called(),
                },
                for_executors=permissions.EXECUTOR_ENDPOINTS,
                home=self._home,
            ),
            gate=gate,
            acls=acls,
            json_suffixes=json_suffixes,
        )
        self._v1 = V1Api(
            Sources(self._frame.call, self._views(), containers.v1, stored.prune_all, self._frame.set_logging_level),
            _container_api(agent),
            viewer_of=self._viewer,
            may=lambda viewer, kind, body: permissions.may(viewer, agent.state.frameworks, kind, body),
        )

    def _home(self, request: web.Request, _knows: bool) -> web.Response | None:
        """Lead a browser to the master, which knows where the page is; plain links while there is none."""
        if not landing.wants_page(request):
            return None
        master, agent_id = self._agent.master, self._agent.state.identity.agent_id
        if master is not None:
            return landing.redirect(f"{request.scheme}://{master.ip}:{master.port}/?agent={agent_id}")
        paths = ("state", "containers", "gpus", "metrics", "help")
        return landing.links_page(
            "Mesos agent",
            "This agent follows no master now. What it shows of itself:",
            [(f"/{path}", f"/{path}") for path in paths],
        )

    def make_app(self) -> web.Application:
        """Return the application with every endpoint."""
        return self._frame.make_app()

    def _viewer(self, request: web.Request) -> Viewer:
        return self._frame.viewer(request)

    def _views(self) -> Mapping[str, Callable[[Viewer], Document]]:
        agent = self._agent
        return {
            "GET_STATE": lambda viewer: views_v1.get_state(agent.state, viewer),
            "GET_TASKS": lambda viewer: views_v1.get_tasks(agent.state, viewer),
            "GET_EXECUTORS": lambda viewer: views_v1.get_executors(agent.state, viewer),
            "GET_FRAMEWORKS": lambda viewer: views_v1.get_frameworks(agent.state, viewer),
            "GET_OPERATIONS": lambda viewer: views_v1.get_operations(agent.holdings.operations.operations(), viewer),
            "GET_AGENT": lambda viewer: views_v1.get_agent(agent.info, agent.agent_id),
            "GET_RESOURCE_PROVIDERS": lambda viewer: {},
        }

    async def _state(self, request: web.Request) -> web.Response:
        agent, viewer = self._agent, self._viewer(request)
        identity, state = agent.state.identity, agent.state
        total = total_resources(agent.info, agent.holdings.kept)
        document: Document = {
            **build(),
            "start_time": agent.started_wall_s,
            "id": identity.agent_id,
            "pid": identity.pid,
            "hostname": agent.info["hostname"],
            "capabilities": list(CAPABILITIES),
            **resources_shown(total, used_resources(state), viewer),
            "resource_providers": [],
            "attributes": attributes_shown(agent.info),
        }
        if agent.master is not None:
            document["master_hostname"] = agent.master.ip
        if viewer.may("view_flags"):
            if self._log_file is not None:
                document["external_log_file"] = self._log_file
            document["flags"] = dict(self._flags)
        document["frameworks"] = frameworks_shown(state.frameworks.active.values(), viewer)
        document["completed_frameworks"] = frameworks_shown(state.frameworks.completed.values(), viewer)
        return json_response(document, request=request)

    def _numbers(self) -> dict[str, float]:
        agent = self._agent
        total = total_resources(agent.info, agent.holdings.kept)
        numbers = agent_metrics(
            agent.state,
            total,
            used_resources(agent.state),
            registered=agent.registered.is_set(),
            uptime_s=agent.clock.wall() - agent.started_wall_s,
        )
        numbers["slave/recovery_time_secs"] = agent.recovery_s
        numbers["slave/executor_directory_max_allowed_age_secs"] = agent.collector.allowed_age_s
        numbers["gc/path_removals_pending"] = float(agent.collector.pending)
        numbers["gc/path_removals_succeeded"] = float(agent.collector.succeeded)
        numbers["gc/path_removals_failed"] = float(agent.collector.failed)
        fetched = {} if agent.fetcher is None else agent.fetcher.metrics()
        return dict(sorted({**numbers, **fetched, **system_metrics()}.items()))


def _container_api(agent: Agent) -> ContainerApi:
    return ContainerApi(
        agent.containers,
        lambda: agent.state.identity,
        agent.fetcher,
        sandboxes=agent.nested_sandboxes,
        grace_of=lambda outermost: nested_grace_s(agent.state.frameworks.tasks(), outermost),
    )
