"""The tree agrees with itself: declared purity, links, schemas, and the pages that are generated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.support import purity
from tools.make_cli import cli_page, help_page
from tools.make_flags import flags_page
from tools.make_site import TOP, place

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *PAGES])
SCHEMAS = sorted((ROOT / "schemas").glob("*.json"))
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# Words in backticks that look like a path of this project.
PATH = re.compile(
    r"`((?:mesos_gpu|marathon_cli|schemas|examples|tests|benchmarks|docs|compat|tools|packaging)/[\w./-]+)`"
)


def test_modules_that_declare_themselves_pure_import_nothing_that_acts() -> None:
    modules = purity.pure_modules()
    assert modules, "the declaration is the word Pure in a module's docstring"
    found = {module: imported for module in sorted(modules) if (imported := purity.forbidden_imports(module))}
    assert found == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_in_documents_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


def test_every_page_is_in_one_of_the_four_parts_and_in_the_table_of_contents() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    there = [place(str(path.relative_to(ROOT))) for path in PAGES]
    there += [place for place in TOP.values() if place.endswith(".md")]
    assert sorted(listed) == sorted(there), "each page has its line in mkdocs.yml, under nav"
    assert {place.split("/")[0] for place in there} == {"index.md", "start", "do", "reference", "why"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_code_stands_between_fences_that_name_its_language(page: Path) -> None:
    """So that tests find it, and a reader's eye its colours."""
    text = page.read_text()
    fences = re.findall(r"^ *```(.*)$", text, re.M)
    assert [name for name in fences[::2] if not name] == []
    outside = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S)
    assert (
        re.findall(r"\n(?:#.*)?\n {4}\S.*", re.sub(r"^ *(?:\d+\.|\*) .*?(?=^\S)", "", outside, flags=re.M | re.S)) == []
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.name)
def test_schemas_are_schemas(schema: Path) -> None:
    document = json.loads(schema.read_text())
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(document)


def test_the_packages_ship_what_they_read() -> None:
    setup = (ROOT / "setup.py").read_text()
    for name in (
        "messages.json",
        "mesos_gpu.gpu.smi",
        "*.c",
        "*.json",
        "py.typed",
        "mesos_gpu.ui.static.*",
    ):
        assert f'"{name}"' in setup


def test_the_page_of_flags_is_what_the_programs_take() -> None:
    page = (REFERENCE / "flags.md").read_text()
    assert page == flags_page(), "out of date; run .venv/bin/python tools/make_flags.py"


def test_the_pages_of_the_command_line_are_what_it_says_of_itself() -> None:
    advice = "out of date; run .venv/bin/python tools/make_cli.py"
    page = (REFERENCE / "cli.md").read_text()
    assert page == cli_page(page), advice
    assert (REFERENCE / "cli-help.md").read_text() == help_page(), advice


PAGE = re.compile(r"(?<![\w/.-])([a-z][a-z-]*\.md)\b")
"""A page named without its folder."""
ELSEWHERE = {
    "config.md": "opencontainers/image-spec",
    "image-index.md": "opencontainers/image-spec",
    "image-layout.md": "opencontainers/image-spec",
    "index.md": "the site of ./run docs, where README.md is its first page",
    "layer.md": "opencontainers/image-spec",
    "manifest.md": "opencontainers/image-spec",
    "master-and-agent.md": "apache/mesos, docs/configuration",
}
"""Pages of others that are cited by their names, and where each can be opened."""
SOURCES = [
    path
    for pattern in (
        "mesos_gpu/**/*.py",
        "marathon_cli/**/*.py",
        "tests/**/*.py",
        "benchmarks/*.py",
        "examples/*",
        "*.md",
        "run",
    )
    for path in sorted(ROOT.glob(pattern))
    if path.is_file()
]


def test_every_page_that_is_cited_can_be_opened() -> None:
    """A source is a file of Mesos or Marathon, an issue, an RFC, or a page that is here."""
    pages = {path.name for path in DOCUMENTS} | ELSEWHERE.keys()
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {page}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        for page in PAGE.findall(line)
        if page not in pages or re.search(rf"{page} \d", line)
    ]
    assert wrong == []
