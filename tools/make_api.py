"""Writes docs/reference/api.md, Marathon's HTTP API from its own routes: .venv/bin/python -m tools.make_api"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mesos_gpu.marathon.api.application import make_api
from mesos_gpu.marathon.api.openapi_routes import API_VERSION, describe
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.marathon.engine.metrics import Metrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
HEAD = f"""\
# Marathon's HTTP API

All calls of `mesos-gpu-marathon`: those of Marathon {API_VERSION}, its pods, jobs in Metronome's shape
(`/v1/jobs`), and what is ours. The same as OpenAPI 3.1, for programs, is served at `/v2/openapi.json`;
`tools/make_api.py` writes this page of it. What is sent is described by the [schemas](schemas.md), who may ask by
[endpoints.md](endpoints.md), what we do otherwise by [differences.md](differences.md#marathon). Masters and agents
have Mesos' endpoints, which [endpoints.md](endpoints.md) lists.

Refusals are JSON with `message`, `details` where a definition is wrong, and `deployments` where one holds what was
to be changed: 400 what cannot be read, 401 who asks is not known, 404, 409 a conflict, 415 not `application/json`,
422 a definition that is refused, 503 no leader, or no master.
"""
PARTS = {
    "/v2/apps": "Apps",
    "/v2/pods": "Pods",
    "/v2/groups": "Groups",
    "/v1/jobs": "Jobs",
    "/v0/scheduled-jobs": "Jobs",
    "/v1/queue": "Jobs",
    "/v2/tasks": "Tasks",
    "/v2/deployments": "Deployments and the queue",
    "/v2/queue": "Deployments and the queue",
    "/v1/plan": "Deployments and the queue",
}
"""Where a path belongs, by how it begins; else to REST."""
REST = "The service itself"


def api_page() -> str:
    """Return the page."""
    document = asyncio.run(_document())
    parts: dict[str, list[str]] = {name: [] for name in (*PARTS.values(), REST)}
    for path, operations in document["paths"].items():
        part = next((name for start, name in PARTS.items() if path.startswith(start)), REST)
        parts[part] += [_row(method, path, operation) for method, operation in operations.items()]
    return HEAD + "".join(_part(name, rows) for name, rows in parts.items())


async def _document() -> dict[str, Any]:
    nothing: Any = SimpleNamespace(metrics=Metrics(time.monotonic))
    return describe(make_api(nothing, info=dict, election=Election()))


def _part(name: str, rows: list[str]) -> str:
    head = "| call | does | query | takes | answers |\n|---|---|---|---|---|\n"
    return f"\n## {name}\n\n{head}{''.join(rows)}"


def _row(method: str, path: str, operation: Mapping[str, Any]) -> str:
    query = ", ".join(f"`{one['name']}`" for one in operation["parameters"] if one["in"] == "query")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    ((status, success),) = [item for item in operation["responses"].items() if item[0] != "default"]
    ((media, content),) = success.get("content", {None: {}}).items()
    answer = _shape(content["schema"]) if "schema" in content else "" if media in (None, "*/*") else f"`{media}`"
    if media == "application/json" and not content:
        answer = "JSON"
    does = operation["summary"].replace("|", "\\|")
    cells = [f"`{method.upper()} {path}`", does, query, "" if body is None else _shape(body), f"{status} {answer}"]
    return f"| {' | '.join(cell.strip() for cell in cells)} |\n"


def _shape(schema: Mapping[str, Any]) -> str:
    """Return a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "oneOf" in schema:
        return " or ".join(map(_shape, schema["oneOf"]))
    if schema.get("type") == "array":
        return f"list of {_shape(schema['items'])}"
    if schema.get("type") == "object" and schema.get("properties"):
        return "{" + ", ".join(_keys(schema["properties"])) + "}"
    return str(schema.get("type", "JSON"))


def _keys(properties: Mapping[str, Any]) -> Iterator[str]:
    for key, schema in properties.items():
        yield f"`{key}`: {_shape(schema)}" if schema.get("type") == "array" or "$ref" in schema else f"`{key}`"


if __name__ == "__main__":
    PAGE.write_text(api_page())
