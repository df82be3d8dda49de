"""schemas/app.json as an editor sees it: valid, described, with defaults that fit, good for the examples."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from tests.support import places
from tests.support.schemas import parts

SCHEMA = json.loads(files("mesos_gpu.schemas").joinpath("app.json").read_text("utf-8"))
EXAMPLES = sorted(places.EXAMPLES.glob("*-gpu-test.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)


def test_the_examples_are_the_documents_of_the_dcos_guide() -> None:
    simple = {
        "id": "simple-gpu-test",
        "acceptedResourceRoles": ["slave_public", "*"],
        "cmd": "while [ true ] ; do nvidia-smi; sleep 5; done",
        "cpus": 1,
        "mem": 128,
        "disk": 0,
        "gpus": 1,
        "instances": 1,
    }
    docker = {**simple, "id": "docker-gpu-test", "container": {"type": "MESOS", "docker": {"image": "nvidia/cuda"}}}
    assert [json.loads(path.read_text()) for path in EXAMPLES] == [docker, simple]


def test_every_key_of_an_app_is_described() -> None:
    resolved = {
        key: {**SCHEMA["$defs"].get(str(item.get("$ref")).rpartition("/")[2], {}), **item}
        for key, item in SCHEMA["properties"].items()
    }
    assert [key for key, item in resolved.items() if not item.get("description")] == []


def test_every_reference_leads_somewhere_and_every_definition_is_used() -> None:
    used = {part["$ref"] for part in parts(SCHEMA) if isinstance(part.get("$ref"), str)}
    assert used == {f"#/$defs/{name}" for name in SCHEMA["$defs"]}


def test_every_default_is_valid() -> None:
    tried = 0
    for part in parts(SCHEMA):
        if "default" in part and ("type" in part or "$ref" in part):
            # Not jsonschema.validate, which checks all of $defs again for each.
            jsonschema.Draft202012Validator({**part, "$defs": SCHEMA["$defs"]}).validate(part["default"])
            tried += 1
    assert tried > 50


def test_every_pattern_compiles_and_is_anchored() -> None:
    for part in parts(SCHEMA):
        if isinstance(part.get("pattern"), str):
            re.compile(part["pattern"])
            assert part["pattern"].startswith("^")
            assert part["pattern"].endswith("$")


def test_the_id_pattern_judges_many_slashes_quickly() -> None:
    assert not re.search(SCHEMA["$defs"]["appId"]["pattern"], "/" * 5_000 + "!")
    assert not re.search(SCHEMA["$defs"]["appId"]["pattern"], "a-" * 5_000 + "!")
