"""What we stand on: dependencies are locked, their licences go with ours, and nothing foreign is run by mistake."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import lock

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)( ; .*?)? \\$")


def locked(name: str) -> dict[str, str]:
    """Return the versions of a lock file that are for this Python, by package."""
    found = {}
    for line in (ROOT / name).read_text().splitlines():
        if (pin := PINNED.match(line)) is not None:
            one = Requirement(line.rstrip(" \\"))
            if one.marker is None or one.marker.evaluate():
                found[pin[1]] = pin[2]
    return found


@pytest.mark.parametrize("name", lock.LOCKS)
def test_a_lock_has_every_requirement_in_a_version_that_fits(name: str) -> None:
    _, *lists = lock.LOCKS[name]
    pins = locked(name)
    assert len(pins) > 30
    for text in lock.wanted(lists):
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate():
            version = pins.get(re.sub(r"[._]", "-", wanted.name.lower()))
            assert version is not None, f"{name} lacks {text}: run .venv/bin/python tools/lock.py --keep"
            assert wanted.specifier.contains(version, prereleases=True), (
                f"{name} has {version}, setup.py asks for {text}"
            )


@pytest.mark.parametrize("name", lock.LOCKS)
def test_every_package_of_a_lock_has_hashes_and_no_registry_an_address(name: str) -> None:
    text = (ROOT / name).read_text()
    blocks = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert "index-url" not in text


PERMISSIVE = re.compile(
    r"^((MIT|MIT-0|BSD|[23]-Clause BSD License|BSD-[23]-Clause|0BSD|Apache([- ]2\.0)?|Zlib|CC0-1\.0|PSF-2\.0|ISC"
    r"|(MIT|BSD|Apache Software|Python Software Foundation|ISC) License)( AND | OR |$))+$"
)
EXCEPTIONS = {"certifi": "MPL-2.0: a list of authorities, shipped as it is; the licence covers changes to that file"}


def licence(name: str) -> str:
    """Return what an installed package says of its licence: SPDX, else its classifier, else its own words."""
    about = metadata.metadata(name)
    classifiers = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier", []) if one.startswith("License")]
    said = [about.get("License-Expression"), *classifiers, about.get("License")]
    return next((text.strip() for text in said if text and text != "UNKNOWN"), "")


def test_what_the_services_need_may_be_given_away_with_them() -> None:
    strange = {name: licence(name) for name in locked("requirements.lock") if not PERMISSIVE.match(licence(name))}
    assert strange.keys() == EXCEPTIONS.keys(), strange
    assert licence("certifi") in EXCEPTIONS["certifi"] or "Mozilla" in licence("certifi")


def test_the_project_names_no_address_of_its_own_while_none_is_known() -> None:
    """Where it is published is not decided. An address made up here would be somebody's, and people would follow it.

    Once it is known: `[project.urls]` (Source, Issues, Documentation, Changelog), mkdocs.yml's site_url and repo_url,
    and the clone's address in README and Start, in the place of this test.
    """
    project = (ROOT / "pyproject.toml").read_text()
    assert "[project.urls]" not in project
    assert not re.search(r"^(site_url|repo_url)", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "pyproject.toml", ROOT / "mkdocs.yml"]
    ours = re.compile(r"https?://[^\s)>\"]*/mesos-gpu(?:\.git)?(?=[\s)>\"/#]|$)")
    named = {path.name: ours.findall(path.read_text()) for path in pages}
    assert {name: found for name, found in named.items() if found} == {}


# --- nothing foreign is run ------------------------------------------------------------------------------------------

MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "telnetlib", "xml", "jsonpickle"}
CALLS = {
    *(
        "eval",
        "exec",
        "os.system",
        "os.popen",
        "tarfile.TarFile.extractall",
        "shutil.unpack_archive",
        "tempfile.mktemp",
    ),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "ssl._create_unverified_context"),
}
METHODS = {"extractall", "extract"}
MENTIONED = re.compile("|".join({*MODULES, *(name.rpartition(".")[2] for name in CALLS), *METHODS, "shell", "verify"}))
"""What a file must have in it to have any of these."""
ALLOWED = {
    (
        "mesos_gpu/images/pulling.py",
        "self._extractor.extract",
    ): "ours: a process that takes layers apart, entry by entry",
}
"""(file, what): why."""


def dangers(path: Path) -> Iterator[str]:
    """Yield what in a module would run, load or unpack what somebody else wrote."""
    text = path.read_text()
    if not MENTIONED.search(text):
        return  # most files need not be parsed
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"import {one.name}" for one in node.names if one.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
                loader = next((ast.unparse(word.value) for word in node.keywords if word.arg == "Loader"), "")
                if not (called.startswith("yaml.load") and "Safe" in loader):
                    yield called
            for word in node.keywords:
                set_to = word.value.value if isinstance(word.value, ast.Constant) else None
                if word.arg in ("shell", "verify") and set_to is (word.arg == "shell"):
                    yield f"{called}({word.arg}={word.value.value})"


def test_nothing_foreign_is_run_loaded_or_unpacked() -> None:
    found = {
        (str(path.relative_to(ROOT)), what)
        for package in ("mesos_gpu", "marathon_cli", "tools", "compat", "examples")
        for path in (ROOT / package).rglob("*.py")
        if "build" not in path.relative_to(ROOT).parts
        for what in dangers(path)
    }
    assert found == set(ALLOWED), sorted(found)
