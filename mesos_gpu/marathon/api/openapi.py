"""The OpenAPI document of the API, made of the routes as they are and the schemas that judge what is sent. Pure.

A route is in the document because it is a route; the table `DETAILS` adds what a route does not tell: what its query
may hold, what its body must be, what it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

Schema: TypeAlias = Mapping[str, Any]
VERSION = "3.1.0"
_JSON = "application/json"
_TEXT, _BOOLEAN, _TEXTS = {"type": "string"}, {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}


class Route(Struct, frozen=True):
    """One method of one path; braces in the path stand for what the path names."""

    method: str
    path: str
    summary: str


class Detail(Struct, frozen=True):
    """What a route takes and gives. `body` and `answer` are schemas; `status` is that of success.

    `media` is the type of the answer, None when it has no body.
    """

    query: Mapping[str, Schema] | None = None
    body: Schema | None = None
    answer: Schema | None = None
    status: int = 200
    media: str | None = _JSON


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def having(**properties: Schema) -> dict[str, Any]:
    """Return the schema of an object that has these keys, and perhaps others."""
    return {"type": "object", "required": list(properties), "properties": properties}


_OBJECT: Schema = {"type": "object"}
_FORCE = {"force": _BOOLEAN}
_KILL = {**_FORCE, "scale": _BOOLEAN, "wipe": _BOOLEAN}
_PUT = {**_FORCE, "partialUpdate": _BOOLEAN}
_EMBED = {"embed": _TEXTS}
_JOB = having(id=_TEXT, run=_OBJECT)
_POD = having(id=_TEXT, version=_TEXT, containers=listed(_OBJECT))
_CHANGE, _TASKS, _VERSIONS = ref("DeploymentResult"), having(tasks=listed(ref("Task"))), having(versions=_TEXTS)
_PLAN_OR_CHANGE: Schema = {"oneOf": [ref("DeploymentResult"), having(steps=listed(_OBJECT))]}
_TASKS_OR_CHANGE: Schema = {"oneOf": [ref("DeploymentResult"), _TASKS]}
_TASK_OR_CHANGE: Schema = {"oneOf": [ref("DeploymentResult"), having(task=ref("Task"))]}

DETAILS: Mapping[tuple[str, str], Detail] = {
    ("GET", "/v2/apps"): Detail(
        {"cmd": _TEXT, "id": _TEXT, "label": _TEXT, **_EMBED}, answer=having(apps=listed(ref("AppInfo")))
    ),
    ("POST", "/v2/apps"): Detail(_FORCE, ref("App"), ref("AppInfo"), 201),
    ("PUT", "/v2/apps"): Detail(_PUT, listed(ref("App")), _CHANGE),
    ("PATCH", "/v2/apps"): Detail(_FORCE, listed(ref("App")), _CHANGE),
    ("GET", "/v2/apps/{app_id}"): Detail(_EMBED),
    ("PUT", "/v2/apps/{app_id}"): Detail(_PUT, ref("AppUpdate"), _CHANGE),
    ("PATCH", "/v2/apps/{app_id}"): Detail(_FORCE, ref("AppUpdate"), _CHANGE),
    ("DELETE", "/v2/apps/{app_id}"): Detail(_FORCE, None, _CHANGE),
    ("POST", "/v2/apps/{app_id}/restart"): Detail(_FORCE, None, _CHANGE),
    ("GET", "/v2/apps/{app_id}/tasks"): Detail(answer=_TASKS),
    ("DELETE", "/v2/apps/{app_id}/tasks"): Detail({"host": _TEXT, **_KILL}, None, _TASKS_OR_CHANGE),
    ("DELETE", "/v2/apps/{app_id}/tasks/{task_id}"): Detail(_KILL, None, _TASK_OR_CHANGE),
    ("GET", "/v2/apps/{app_id}/versions"): Detail(answer=_VERSIONS),
    ("GET", "/v2/apps/{app_id}/versions/{version}"): Detail(answer=ref("AppInfo")),
    ("GET", "/v2/groups"): Detail(_EMBED, answer=ref("GroupInfo")),
    ("GET", "/v2/groups/{group_id}"): Detail(_EMBED),
    **{
        (method, path): Detail(query, body, answer, status)
        for path in ("/v2/groups", "/v2/groups/{group_id}")
        for method, query, body, answer, status in (
            ("POST", _FORCE, ref("Group"), _CHANGE, 201),
            ("PUT", {**_FORCE, "dryRun": _BOOLEAN}, ref("Group"), _PLAN_OR_CHANGE, 200),
            ("DELETE", _FORCE, None, _CHANGE, 200),
        )
    },
    ("PATCH", "/v2/groups"): Detail(None, having(enforceRole=_BOOLEAN), media=None),
    ("PATCH", "/v2/groups/{group_id}"): Detail(None, having(enforceRole=_BOOLEAN), media=None),
    ("HEAD", "/v2/pods"): Detail(media=None),
    ("GET", "/v2/pods"): Detail(answer=listed(_POD)),
    ("POST", "/v2/pods"): Detail(_FORCE, ref("Pod"), _POD, 201),
    ("GET", "/v2/pods/{pod_id}"): Detail(answer=_POD),
    ("PUT", "/v2/pods/{pod_id}"): Detail(_FORCE, ref("Pod"), _POD),
    ("DELETE", "/v2/pods/{pod_id}"): Detail(_FORCE, status=202, media=None),
    ("GET", "/v2/pods/::status"): Detail(_EMBED, answer=listed(having(id=_TEXT, status=_TEXT))),
    ("GET", "/v2/pods/{pod_id}::status"): Detail(_EMBED, answer=having(id=_TEXT, status=_TEXT)),
    ("GET", "/v2/pods/{pod_id}::versions"): Detail(answer=_TEXTS),
    ("GET", "/v2/pods/{pod_id}::versions/{version}"): Detail(answer=_POD),
    ("DELETE", "/v2/pods/{pod_id}::instances"): Detail({"wipe": _BOOLEAN}, _TEXTS),
    ("DELETE", "/v2/pods/{pod_id}::instances/{instance_id}"): Detail({"wipe": _BOOLEAN}),
    ("GET", "/v1/jobs"): Detail(_EMBED, answer=listed(_JOB)),
    ("POST", "/v1/jobs"): Detail(None, ref("Job"), _JOB, 201),
    ("GET", "/v1/jobs/{job_id}"): Detail(_EMBED, answer=_JOB),
    ("PUT", "/v1/jobs/{job_id}"): Detail(None, ref("Job"), _JOB),
    ("GET", "/v1/jobs/{job_id}/runs"): Detail(answer=listed(_OBJECT)),
    ("POST", "/v1/jobs/{job_id}/runs"): Detail(None, None, having(id=_TEXT, status=_TEXT), 201),
    ("GET", "/v1/jobs/{job_id}/schedules"): Detail(answer=listed(_OBJECT)),
    ("POST", "/v1/plan"): Detail(
        _FORCE,
        having(documents=listed(having(kind=_TEXT, document=_OBJECT)), agents=listed(_OBJECT)),
        having(now=_BOOLEAN, summary=_TEXT, starts=listed(_OBJECT), ends=listed(_OBJECT), waits=listed(_OBJECT)),
    ),
    ("POST", "/v1/when"): Detail(
        None,
        having(id=_TEXT, agents=listed(_OBJECT)),
        having(id=_TEXT, waiting={"type": "integer"}, starts=listed(_OBJECT)),
    ),
    ("POST", "/v1/why"): Detail(None, having(id=_TEXT, agents=listed(_OBJECT)), having(id=_TEXT, change=_OBJECT)),
    ("GET", "/v1/usage"): Detail(
        {"since": _TEXT, "by": _TEXT, "app": _TEXT},
        answer=having(since=_TEXT, until=_TEXT, by=_TEXT, usage=listed(_OBJECT), total=_OBJECT),
    ),
    ("POST", "/v0/scheduled-jobs"): Detail(None, ref("Job"), _JOB, 201),
    ("GET", "/v2/tasks"): Detail({"status": _TEXTS, **_EMBED}, answer=_TASKS),
    ("POST", "/v2/tasks/delete"): Detail(_KILL, having(ids=_TEXTS), _TASKS_OR_CHANGE),
    ("GET", "/v2/deployments"): Detail(_EMBED, answer=listed(having(id=_TEXT, version=_TEXT, steps=listed(_OBJECT)))),
    ("DELETE", "/v2/deployments/{deployment_id}"): Detail(_FORCE, None, _CHANGE),
    ("GET", "/v2/queue"): Detail(_EMBED, answer=having(queue=listed(_OBJECT))),
    ("DELETE", "/v2/queue/{app_id}/delay"): Detail(status=204, media=None),
    ("GET", "/v2/info"): Detail(answer=having(name=_TEXT)),
    ("GET", "/v2/leader"): Detail(answer=having(leader=_TEXT)),
    ("DELETE", "/v2/leader"): Detail({"backup": _TEXT}, answer=having(message=_TEXT)),
    ("GET", "/v2/events"): Detail({"event_type": _TEXTS}, media="text/event-stream"),
    ("GET", "/v2/plugins"): Detail(answer=having(plugins=listed(_OBJECT))),
    ("GET", "/v2/openapi.json"): Detail(answer=having(openapi=_TEXT)),
    ("GET", "/metrics"): Detail(answer=having(gauges=_OBJECT, counters=_OBJECT)),
    ("GET", "/metrics/prometheus"): Detail(media="text/plain"),
    ("GET", "/logging"): Detail(answer={**_OBJECT, "additionalProperties": _TEXT}),
    ("POST", "/logging"): Detail(None, having(logger=_TEXT, level=_TEXT), having(logger=_TEXT, level=_TEXT)),
    ("GET", "/ping"): Detail(media="*/*"),
}
_ERROR: Schema = {
    "description": "What went wrong. `deployments` is there when running deployments hold what was to be changed.",
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": _TEXT,
        "details": {"oneOf": [_TEXT, listed(having(path=_TEXT, errors=_TEXTS))]},
        "deployments": listed(having(id=_TEXT)),
    },
}
_OURS: Mapping[str, Schema] = {
    "Error": _ERROR,
    "DeploymentResult": having(version=_TEXT, deploymentId=_TEXT),
    "AppInfo": {
        "description": "An app as it is kept, every default filled in, with what runs of it.",
        **having(id=_TEXT, version=_TEXT, instances={"type": "integer"}, gpus={"type": "integer"}),
    },
    "GroupInfo": having(id=_TEXT, apps=listed(_OBJECT), groups=listed(_OBJECT), version=_TEXT),
    "Task": having(id=_TEXT, appId=_TEXT, state=_TEXT),
}


def document(routes: Iterable[Route], schemas: Mapping[str, Schema], *, version: str) -> dict[str, Any]:
    """Return the document. `schemas` are those of mesos_gpu/schemas/, by the names that they have here."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    components = dict(_OURS)
    for name, schema in schemas.items():
        components |= _component(name, schema)
    if "App" in components:
        # What is sent to the path of an app need not name it, nor say all of it.
        components["AppUpdate"] = {key: value for key, value in components["App"].items() if key != "required"}
    return {
        "openapi": VERSION,
        "info": {"title": "Marathon", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route) -> dict[str, Any]:
    detail = DETAILS.get((route.method, route.path), Detail())
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _named(route.path)
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in (detail.query or {}).items()]
    content = {"schema": detail.answer} if detail.answer is not None else {}
    success: dict[str, Any] = {"description": "Done."}
    if detail.media is not None:
        success["content"] = {detail.media: content}
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(detail.status): success,
            "default": {"description": "Anything else.", "content": {_JSON: {"schema": ref("Error")}, "*/*": {}}},
        },
    }
    if detail.body is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": detail.body}}}
    return operation


def _named(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:]]


def _operation_id(route: Route) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in route.path).split()
    return "_".join([route.method.lower(), *words])


def _component(name: str, schema: Schema) -> dict[str, Schema]:
    """Return a schema, and what it defines, with references that hold within the document."""
    found = {f"{name}.{key}": _moved(value, name) for key, value in schema.get("$defs", {}).items()}
    return {name: {key: _moved(value, name) for key, value in schema.items() if key[0] != "$"}, **found}


def _moved(part: Any, name: str) -> Any:
    if isinstance(part, Mapping):
        moved = {key: _moved(value, name) for key, value in part.items()}
        if isinstance(reference := moved.get("$ref"), str) and reference.startswith("#"):
            moved["$ref"] = f"#/components/schemas/{name}{reference[1:].replace('/$defs/', '.')}"
        return moved
    return [_moved(value, name) for value in part] if isinstance(part, list) else part
