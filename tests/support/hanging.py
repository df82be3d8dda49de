"""A test that hangs ends, and says where: neither it nor a worker that died keeps the whole run for ever.

Loaded by tests/conftest.py. The limit of each test is pytest-timeout's: a signal, of which Python's handler raises. Not
heard by who waits in C without coming back, and swallowed by an event loop where it comes within a callback.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling, LoadScopeScheduling
from xdist.workermanage import WorkerController

AGAIN_S = 60.0
"""Between the signal that ends a test and the next one, for what hangs as it is taken down."""
GRACE_S = float(os.environ.get("HANGING_GRACE_S", "180"))
"""From the first signal until the process ends, with all its stacks told."""

_stderr: list[int] = []


def pytest_configure() -> None:
    if not _stderr:
        _stderr.append(os.dup(2))  # what is captured meanwhile would not be seen


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(settings: Any) -> Iterator[None]:
    result = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_S)
    faulthandler.dump_traceback_later(settings.timeout + GRACE_S, exit=True, file=_stderr[0])
    return result


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer() -> Iterator[None]:
    faulthandler.cancel_dump_traceback_later()
    return (yield)


class _Ended(LoadScopeScheduling):
    """Whose workers end though one of them died.

    xdist's own gives the tests of the dead to others by whole files or groups, the finished ones first: who is given
    nothing but them does nothing, and is given nothing else. And who has one test does not run it before it is told
    what follows, or that nothing does.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        work = self.assigned_work[node]
        for finished in [scope for scope, tests in work.items() if all(tests.values())]:
            del work[finished]
        return super().remove_node(node)

    def schedule(self) -> None:
        super().schedule()
        for node in self.nodes:
            for _ in range(3):  # until it has more than two, or is told that this was all
                self._reschedule(node)


class _ByGroup(_Ended, LoadGroupScheduling):
    """Assigns whole groups (`xdist_group`), and whole files where a test has no group."""

    def _split_scope(self, nodeid: str) -> str:
        in_group = nodeid.rfind("@") > nodeid.rfind("]")
        return nodeid.rpartition("@")[2] if in_group else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None
