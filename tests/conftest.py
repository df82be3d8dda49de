"""What all tests share: when `root` and `gpu` tests run, and that none of them goes missing unseen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.histories import register_profiles

if not os.environ.get("PACKAGING"):
    collect_ignore = ["packaging"]  # `./run test packaging`: builds and installs for minutes

pytest_plugins = ["pytester", "mesos_gpu.testing.plugin"]

register_profiles()
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

IS_ROOT = os.geteuid() == 0
HAS_GPU = Path("/dev/nvidiactl").exists()
WHOLE = tuple(Path(__file__).parent / name for name in ("box", "clients", "cluster", "genuine", "packaging", "testing"))
"""Folders whose tests start whole clusters."""
skipped_as_root = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[skipped_as_root] = []
    _config.append(config)


_config: list[pytest.Config] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in WHOLE):
            item.add_marker(pytest.mark.slow)
        if not any(item.get_closest_marker(name) for name in ("root", "gpu", "slow")):
            item.add_marker(pytest.mark.fast)
        if item.get_closest_marker("root") and not IS_ROOT:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if item.get_closest_marker("gpu") and not HAS_GPU:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # What is packed has the time in it: names are to be the same in every process that collects them.
    return argname if isinstance(val, bytes) and len(val) > 16 else None


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
