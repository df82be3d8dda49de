"""The house itself: import contracts, documents and schemas say what is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
SCHEMAS = sorted((ROOT / "schemas").glob("*.json"))
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# Words in backticks that look like a path of this project.
PATH = re.compile(r"`((?:mesos_gpu|marathon_cli|schemas|examples|tests|benchmarks|docs|compat)/[\w./-]+)`")


def test_everyone_imports_only_what_the_house_allows() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_in_documents_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.name)
def test_schemas_are_schemas(schema: Path) -> None:
    document = json.loads(schema.read_text())
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(document)


def test_the_packages_ship_what_they_read() -> None:
    setup = (ROOT / "setup.py").read_text()
    for name in ("messages.json", "nvidia-smi", "*.json", "py.typed"):
        assert f'"{name}"' in setup


def test_each_service_program_has_its_flags_written_down() -> None:
    from mesos_gpu.marathon.flags import FLAGS as MARATHON

    from mesos_gpu.agent.flags import FLAGS as AGENT
    from mesos_gpu.master.flags import FLAGS as MASTER

    text = (ROOT / "docs" / "flags.md").read_text()
    for program, flags in (("mesos-gpu-master", MASTER), ("mesos-gpu-agent", AGENT), ("mesos-gpu-marathon", MARATHON)):
        section = text.split(f"## {program}\n")[1].split("\n## ")[0]
        assert re.findall(r"^\| `--(\w+)`", section, re.MULTILINE) == sorted(flag.name for flag in flags)
