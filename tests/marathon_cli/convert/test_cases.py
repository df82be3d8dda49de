"""Whole files, and what becomes of them: cases/NAME.expected.json has the documents, a golden file the notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marathon_cli.convert.manifests import convert
from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app import AppRules, read_app
from mesos_gpu.marathon.definitions.document_schema import DocumentSchema
from mesos_gpu.marathon.definitions.pod import read_pod
from mesos_gpu.marathon.model.job import read_job
from tests.support.golden import Golden

RULES = AppRules(mesos_role="lab")  # volumes that stay want a role
HERE = Path(__file__).parent
CASES = sorted([*(HERE / "cases").glob("*.yaml"), *(HERE / "cases").glob("*.sh")])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_becomes_what_was_looked_at_and_found_right(case: Path, golden: Golden) -> None:
    done = convert(case.read_text(), case.name, environ={"HOME": "/root"})
    documents = [{"form": form, "document": document} for form, document in done.documents]
    assert documents == json.loads(case.with_suffix(".expected.json").read_text())["documents"]
    assert not done.notes.lines() or done.notes.lines() == golden


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_comes_out_is_valid(case: Path) -> None:
    for form, document in convert(case.read_text(), case.name, environ={}).documents:
        assert problems(form, document) == []


def problems(form: str, document: dict[str, Any]) -> list[str]:
    """Return what our own checks say of a document."""
    try:
        if form == "app":
            read_app(document, RULES)
        elif form == "pod":
            read_pod(document, RULES)
        else:
            read_job(document, RULES)
    except InvalidApp as error:
        return [str(error)]
    schema = DocumentSchema(f"{form}.json")
    problems = [*schema.unknown_keys(document), *schema.shape_problems(schema.clean(document))]
    return [f"{problem.path}: {problem.message}" for problem in problems]
