"""What all tests share: when `root` and `gpu` tests run, and that none of them goes missing unseen."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import codec
from tests.support.histories import register_profiles

# jsonschema checks no IRI for us. Where this is installed (the bill of materials brings it), importing jsonschema takes
# 2 s, because the grammars of RFC 3987 are compiled.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

if not os.environ.get("PACKAGING"):
    collect_ignore = ["packaging"]  # `./run test packaging`: builds and installs for minutes

pytest_plugins = [
    "pytester",
    "mesos_gpu.testing.plugin",
    "tests.support.golden",
    "tests.support.hanging",
    "tests.support.rooms",
    "tests.support.proofs",
]

register_profiles()
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

IS_ROOT = os.geteuid() == 0
HERE = Path.cwd()
HAS_GPU = Path("/dev/nvidiactl").exists()
WHOLE = tuple(Path(__file__).parent / name for name in ("box", "clients", "cluster", "genuine", "packaging", "testing"))
"""Folders whose tests start whole clusters."""
SHARED_SERVERS = {"engine", "site", "standing", "zookeeper"}
"""Fixtures that start a Docker Engine, a box or a ZooKeeper for many files: once in each worker with such a test."""
skipped_as_root = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[skipped_as_root] = []
    _config.append(config)
    if hasattr(config, "workerinput"):
        # `./run coverage` measures what runs in the workers. Programs that tests start say what they load, and in what
        # time: a measurement in them would be in the way.
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


_config: list[pytest.Config] = []


def pytest_report_header() -> str:
    return f"codec of messages: {codec.in_use()}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # Reading a module takes longer than most of its tests: the fast tests leave out those that have none of them.
    if config.option.markexpr != "fast":
        return None
    if collection_path.is_dir():
        return True if collection_path in WHOLE else None
    if collection_path.suffix != ".py":
        return None  # what tests are given, which may be bytes of any kind
    return True if _NOT_FAST.search(collection_path.read_text()) else None


_NOT_FAST = re.compile(r"^pytestmark = .*\bpytest\.mark\.(?:root|gpu|slow)\b", re.M)
"""What marks a whole module."""


@cache
def _is_whole(folder: Path) -> bool:
    return any(whole == folder or whole in folder.parents for whole in WHOLE)


def pytest_collection_finish() -> None:
    # What is there now stays: looking at it again and again for garbage takes a tenth of the time of the fast tests.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # xdist then sees the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _is_whole(item.path.parent):
            item.add_marker(pytest.mark.slow)
        if not any(item.get_closest_marker(name) for name in ("root", "gpu", "slow")):
            item.add_marker(pytest.mark.fast)
        if item.get_closest_marker("root") and not IS_ROOT:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("gpu") and not HAS_GPU:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
    if hasattr(config, "workerinput"):
        _divide_among_workers(items)


def _divide_among_workers(items: list[pytest.Item]) -> None:
    """Put tests of one shared server into one group, and slow files first, so that all workers end at the same time."""
    for item in items:
        for name in SHARED_SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(name))
    ranks = ("root", "slow", "fast", "gpu")
    items.sort(key=lambda item: next(rank for rank, name in enumerate(ranks) if item.get_closest_marker(name)))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # What is packed has the time in it: names are to be the same in every process that collects them.
    return argname if isinstance(val, bytes) and len(val) > 16 else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    yield
    # Later tests start programs that find this repository by it, and fail for what an earlier one did.
    if (left := Path.cwd()) != HERE:
        os.chdir(HERE)
        pytest.fail(f"the working directory is {left} after this test, and was {HERE}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # No root makes a library run on a processor that it was not built for (tests/genuine).
    excused = "gpu" in report.keywords or "PyPI has Mesos for Linux on x86_64 alone" in str(report.longrepr)
    if IS_ROOT and report.skipped and "root" in report.keywords and not excused:
        _config[0].stash[skipped_as_root].append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # The walls are what this project is for: a run as root that did not test them has not passed.
    if session.config.stash[skipped_as_root]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for nodeid in config.stash[skipped_as_root]:
        terminalreporter.write_line(f"FAILED: {nodeid} was skipped although the user is root", red=True)
