"""The OpenAPI document: it has every route, and whatever it allows to be sent is answered as it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mesos_gpu.marathon.api.openapi import DETAILS
from mesos_gpu.marathon.api.openapi_routes import routes_of
from tests.support.marathon.service import Marathon

pytestmark = pytest.mark.slow

CHECKS = (not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance)
# The first does not end, the second is the end, the third changes what the tests log.
LEFT_OUT = {("GET", "/v2/events"), ("DELETE", "/v2/leader"), ("POST", "/logging")}
EXAMPLES, OF_BODIES = 8, 2
"""How many each; making a body by the schema of an app takes half a second."""


async def test_every_route_is_in_the_document_and_says_what_it_does(marathon: Marathon) -> None:
    document = await marathon.get("/v2/openapi.json")
    there = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert there == {(route.method, route.path) for route in routes_of(marathon.app)}
    assert set(DETAILS) <= there, "no details of routes that are not there"
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"].endswith("."), operation
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


async def test_the_schemas_of_the_document_hold_together(marathon: Marathon) -> None:
    document = await marathon.get("/v2/openapi.json")
    validator = Draft202012Validator({**document, "$ref": "#/components/schemas/App"})
    assert validator.is_valid({"id": "/a", "cmd": "true", "gpus": 1})
    assert not validator.is_valid({"id": "/a", "gpus": 0.5})
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_whatever_the_document_allows_is_answered_as_it_says(marathon: Marathon) -> None:
    await marathon.running()
    document = await marathon.get("/v2/openapi.json")
    sent: dict[tuple[str, str], int] = {}

    def fuzz() -> None:
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = found.ok()
            if (operation.method.upper(), operation.path) in LEFT_OUT:
                continue

            @given(case=operation.as_strategy())
            @settings(
                max_examples=OF_BODIES if operation.body else EXAMPLES,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def send(case: Any) -> None:
                response = case.call(base_url=marathon.url)
                case.validate_response(response, checks=CHECKS)
                key = (case.method, case.path)
                sent[key] = sent.get(key, 0) + 1

            send()

    await asyncio.to_thread(fuzz)
    assert len(sent) == sum(len(methods) for methods in document["paths"].values()) - len(LEFT_OUT)
