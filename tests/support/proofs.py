"""Long proofs: tests marked `proof` run when the sources that they prove have changed, and in `./run test thorough`.

    @pytest.mark.proof("mesos_gpu/gpu/mig_layout.py")

names those sources, files or folders. `tests/proved.txt` keeps a hash of them and of the test's file for each proof
that has passed. `./run test` writes it when a proof passed for other sources; commit it with the change. A proof whose
hash is not in the file runs. Loaded by tests/conftest.py.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

KEPT = ROOT / "tests" / "proved.txt"
_passed: dict[str, str] = {}
_failed: set[str] = set()


@cache
def digest(sources: tuple[str, ...]) -> str:
    """Return a hash of the files, and of all files in the folders, with their names. Raises OSError."""
    found = hashlib.sha256()
    for path in sorted({path for source in sources for path in _files(ROOT / source)}):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def _files(source: Path) -> Iterable[Path]:
    if not source.is_dir():
        return [source]
    built = (".pyc", ".so", ".o")
    return (
        path
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in built and ".egg-info" not in str(path) and "build" not in path.parts
    )


def kept() -> dict[str, str]:
    """Return the hashes for which proofs have passed, by test."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return dict(reversed(line.split()) for line in lines)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known, unchanged = kept(), []
    for item in items:
        mark = item.get_closest_marker("proof")
        if mark is not None:
            file, _, name = item.nodeid.partition("::")
            test = f"{file}::{name.partition('[')[0]}"
            current = digest((*mark.args, file))
            item.user_properties.append(("proof", f"{current} {test}"))
            if known.get(test) == current:
                unchanged.append(item)
    named = any("::" in word for word in config.args)
    if unchanged and not named and not os.environ.get("THOROUGH"):
        config.hook.pytest_deselected(items=unchanged)
        items[:] = [item for item in items if item not in unchanged]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == "proof":
            current, test = str(value).split()
            if report.outcome != "passed":
                _failed.add(test)
            elif report.when == "call":
                _passed[test] = current


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Only a run of all tests is known to have had every case of a proof, and the fast profile tries too few.
    full = os.environ.get("ALL_TESTS") and os.environ.get("HYPOTHESIS_PROFILE") != "fast"
    if full and not hasattr(session.config, "workerinput"):
        known = {test: value for test, value in kept().items() if (ROOT / test.partition("::")[0]).exists()}
        proved = known | {test: value for test, value in _passed.items() if test not in _failed}
        if proved != kept():
            KEPT.write_text("".join(f"{value} {test}\n" for test, value in sorted(proved.items())))
