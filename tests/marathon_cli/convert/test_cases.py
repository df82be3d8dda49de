"""Whole files, and what becomes of them: cases/NAME.expected.json has the documents and every note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from marathon_cli.convert.whole import convert
from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.app import AppRules, read_app, unknown_keys

HERE = Path(__file__).parent
SCHEMAS = Path(__file__).parents[3] / "schemas"
CASES = sorted([*(HERE / "cases").glob("*.yaml"), *(HERE / "cases").glob("*.sh")])


def golden(case: Path) -> dict[str, Any]:
    done = convert(case.read_text(), case.name, environ={"HOME": "/root"})
    return {
        "documents": [{"form": form, "document": document} for form, document in done.documents],
        "notes": done.notes.lines(),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_becomes_what_was_looked_at_and_found_right(case: Path) -> None:
    assert golden(case) == json.loads(case.with_suffix(".expected.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_comes_out_is_valid(case: Path) -> None:
    for form, document in convert(case.read_text(), case.name, environ={}).documents:
        assert problems(form, document) == []


def problems(form: str, document: dict[str, Any]) -> list[str]:
    """Return what our own checks say of a document."""
    if form == "app":
        try:
            read_app(document, AppRules())
        except InvalidApp as error:
            return [str(error)]
        return [str(problem) for problem in unknown_keys(document)]
    schema = json.loads((SCHEMAS / f"{form}.json").read_text())
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]
