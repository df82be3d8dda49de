"""Every isolator of a test compares its holdings with a ledger after each change; a difference fails the test."""

from __future__ import annotations

import pytest

from mesos_gpu.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.live_ledger import LiveLedger


@pytest.fixture(autouse=True)
def checked_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the comparison on, and raise where it logs."""

    def report(check: LiveLedger, problem: str) -> None:
        raise AssertionError(problem)

    monkeypatch.setattr(LiveLedger, "report", report)
    defaults = NvidiaGpuIsolator.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "check_ledger", True)
