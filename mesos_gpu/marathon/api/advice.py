"""/ui/api/advice: what is wrong with a document, in sentences with what to do, and what is likely to surprise about it.

Marathon's own refusal has codes alone (`error.min`). The sentences are those that the command line says of a file
before it sends it, from the same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from msgspec import Struct

from mesos_gpu.errors import BadInput, InvalidApp, MesosGpuError, Problem
from mesos_gpu.marathon.api.answers import read_object
from mesos_gpu.marathon.api.mesos_door import credentials_of
from mesos_gpu.marathon.definitions.app import AppRules, read_app
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.model.job import read_job
from mesos_gpu.marathon.why.problems import app_problems, job_problems, pod_problems
from mesos_gpu.marathon.why.warnings import warnings
from mesos_gpu.process.http import json_response


class AdviceApi(Struct, frozen=True):
    """The handler. `agents` asks the master for all of them, as the user of these credentials.

    `matching` is how this Marathon matches offers.
    """

    rules: Callable[[], AppRules]
    agents: Callable[[str | None], Awaitable[Sequence[Machine]]]
    matching: Callable[[], Rules]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with `problems` (path, message, advice) and `warnings` of `document`, an app, pod or job by `kind`."""
        asked = await read_object(request)
        kind, document = asked.get("kind"), asked.get("document")
        if kind not in _PROBLEMS:
            raise BadInput(f"kind must be one of {', '.join(_PROBLEMS)}: what the document is")
        problems = _PROBLEMS[kind](document, self.rules())
        said: list[str] = []
        if kind == "app" and not problems and isinstance(document, dict):
            agents = await self._known(credentials_of(request))
            said = warnings(read_app(document, self.rules()), agents, self.matching())
        shown = [
            {"path": path_of(one), "message": one.message, **({"advice": one.suggestion} if one.suggestion else {})}
            for one in dict.fromkeys(problems)
        ]
        return json_response({"problems": shown, "warnings": said})

    async def _known(self, credentials: str | None) -> Sequence[Machine] | None:
        try:
            return await self.agents(credentials)
        except MesosGpuError:
            return None


def path_of(problem: Problem) -> str:
    """Return where a problem is, the key included that it points at."""
    return f"/{problem.key}" if problem.path == "/" and problem.key else problem.path


def _whole_job(document: Any, rules: AppRules) -> list[Problem]:
    """Return what is wrong with a job: its shape, and when that is right, what its run would be refused for."""
    found = job_problems(document)
    if found:
        return found
    try:
        read_job(document, rules)
    except InvalidApp as error:
        return list(error.problems)
    return []


_PROBLEMS: dict[Any, Callable[[Any, AppRules], list[Problem]]] = {
    "app": app_problems,
    "pod": pod_problems,
    "job": _whole_job,
}
