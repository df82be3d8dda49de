"""The pod and job schemas as an editor sees them: valid, described, with defaults that fit."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from tests.support.schemas import parts

SCHEMAS = {
    name: json.loads(files("mesos_gpu.schemas").joinpath(f"{name}.json").read_text("utf-8")) for name in ("pod", "job")
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_is_described_and_every_default_is_valid(name: str) -> None:
    schema = SCHEMAS[name]
    resolver = {"$defs": schema["$defs"]}
    for part in parts(schema):
        for key, item in part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ():
            target: dict[str, Any] = {**schema["$defs"].get(str(item.get("$ref")).rpartition("/")[2], {}), **item}
            assert target.get("description"), key
        if "default" in part:
            jsonschema.Draft202012Validator({**resolver, **part}).validate(part["default"])
