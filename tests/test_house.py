"""The house itself: import contracts, documents and schemas say what is so."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support import rooms, walls
from tools.make_cli import cli_page, help_page
from tools.make_flags import flags_page
from tools.make_site import TOP, place

pytestmark = pytest.mark.slow  # `./run check` runs it

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *PAGES])
SCHEMAS = sorted((ROOT / "mesos_gpu" / "schemas").glob("*.json"))
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
# Words in backticks that look like a path of this project.
PATH = re.compile(r"`((?:mesos_gpu|marathon_cli|examples|tests|benchmarks|docs|compat|tools|packaging)/[\w./-]+)`")


LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
needs_import_linter = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="import-linter 2.16 needs Python 3.11; imports are the same on all"
)


@needs_import_linter
def test_everyone_imports_only_what_the_house_allows() -> None:
    done = subprocess.run([LINT_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_import_linter
def test_each_import_contract_refuses_what_it_is_there_for(tmp_path: Path) -> None:
    for package in walls.PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    forbidden = list(walls.forbidden_imports())
    assert {one.contract for one in forbidden} == {contract["name"] for contract in walls.contracts()}
    for one in forbidden:
        walls.put(one, tmp_path)
    done = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = walls.broken(done.stdout)
    unnoticed = [one for one in forbidden if one.refusal not in said.get(one.contract, "")]
    assert (unnoticed, done.returncode) == ([], 1), done.stdout + done.stderr


def test_every_module_that_calls_itself_pure_is_kept_so() -> None:
    pure = (*walls.deciding_rooms(), *walls.deciding_modules())
    missing = []
    for package in walls.PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            says = re.search(r"\bPure\b", ast.get_docstring(ast.parse(path.read_text())) or "")
            if says and not any(f"{module}.".startswith(f"{name}.") for name in pure):
                missing.append(module)
    assert missing == [], "add them to the contract 'What decides does not act' of pyproject.toml"


NO_LINES = {"covered_lines": 0, "num_statements": 0}


def test_a_deciding_room_with_too_few_branches_taken_is_told() -> None:
    def file(taken: int, branches: int) -> dict[str, Any]:
        return {"summary": {"covered_branches": taken, "num_branches": branches, **NO_LINES}}

    files = {
        "mesos_gpu/mesos/flags.py": file(94, 100),
        "mesos_gpu/mesos/regex.py": file(1, 1),
        "mesos_gpu/isolator/pool.py": file(4, 4),
        "mesos_gpu/agent/disk/volumes.py": file(1, 2),
        "mesos_gpu/agent/disk/removal.py": file(0, 0),
    }
    found = rooms.by_room({"files": files})
    assert [(one.room, one.taken, one.branches, one.too_few) for one in found] == [
        (rooms.OTHERS, 4, 4, False),
        ("mesos_gpu.mesos", 95, 101, True),
        ("mesos_gpu.agent.disk", 1, 2, False),
    ]
    assert "94.1 %" in list(rooms.lines(found))[1]


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


ROOMS = {
    "agent": "mesos_gpu/agent",
    "master": "mesos_gpu/master",
    "marathon": "mesos_gpu/marathon",
    "container": "mesos_gpu/container",
    "marathon_cli": "marathon_cli",
}


@pytest.mark.parametrize("room", ROOMS)
def test_tests_of_a_room_mirror_its_folders(room: str) -> None:
    def folders(top: Path) -> set[str]:
        return {str(found.parent.relative_to(top)) for found in top.rglob("__init__.py")}

    assert folders(ROOT / "tests" / room) - folders(ROOT / ROOMS[room]) == set()


SHARED = ("tests.support", "tests.fakes")


def test_tests_import_no_helper_out_of_another_tests_module() -> None:
    """What tests of several folders use lies in tests/support or tests/fakes: a test can change or go by itself."""
    wrong: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        here, folder = str(path.relative_to(ROOT)), str(path.parent.relative_to(ROOT)).replace("/", ".")
        for module in sorted(_imports_of_tests(path)):
            package, _, last = module.rpartition(".")
            if not (ROOT / module.replace(".", "/")).with_suffix(".py").exists():
                wrong.append(f"{here} imports {module}, which is not there: look in tests/support and tests/fakes")
            elif last == "conftest" or last.startswith("test_"):
                wrong.append(f"{here} imports {module}: what both use belongs into a module of its own")
            elif not package.startswith(SHARED) and package != folder:
                wrong.append(f"{here} imports {module}: what tests of several folders use belongs in tests/support")
    assert wrong == []


def _imports_of_tests(path: Path) -> set[str]:
    """Return the modules below tests/ that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("tests.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
            package = node.module or ""
            is_package = (ROOT / package.replace(".", "/")).is_dir()
            found |= {f"{package}.{alias.name}" for alias in node.names} if is_package else {package}
    return found


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


def test_names_of_tests_say_what_is_so_and_carry_no_numbers_of_cases() -> None:
    numbered = re.compile(r"^(?:async )?def (test_(?:case_)?\d+(?:_\d+)*_(?!bit|bytes|apps_of)\w+)", re.M)
    names = [name for path in (ROOT / "tests").rglob("test_*.py") for name in numbered.findall(path.read_text())]
    assert names == []


MOST_MODULES = 25
LONGEST_FILE = 450
LONGEST_FUNCTION = 60
PYTHON = [
    path
    for folder in ("mesos_gpu", "marathon_cli", "tests", "benchmarks", "examples", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_no_folder_of_code_holds_more_modules_than_a_reader_can_survey() -> None:
    folders = {path.parent for package in walls.PACKAGES for path in (ROOT / package).rglob("*.py")}
    counts = {str(folder.relative_to(ROOT)): len([*folder.glob("*.py")]) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


def test_no_file_is_too_long_to_be_about_one_thing() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in PYTHON}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}, "split it by topic"


def test_no_function_is_too_long_to_be_read_at_once() -> None:
    """Ruff sees to statements and complexity (pyproject.toml); lines are counted here, from `def` to the end."""
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert long == []


def test_each_folder_of_code_has_its_line_in_the_architecture_and_words_are_few() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    folders = {path.parent for package in walls.PACKAGES for path in (ROOT / package).glob("*/__init__.py")}
    folders |= {path.parent for name in set(ROOMS.values()) for path in (ROOT / name).glob("*/__init__.py")}
    assert [
        str(folder.relative_to(ROOT))
        for folder in sorted(folders)
        if f"`{folder.name}/`" not in page and f"`{folder.relative_to(ROOT)}/`" not in page
    ] == []
    words = [line for line in (REFERENCE / "glossary.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(words) <= 30
    assert words == sorted(words, key=str.casefold)
