"""Runs the unit tests against planted defects: which test fails first for each.

The fast tests are collected once. A fork of that process then replaces the code of the changed functions and runs the
tests of the packages concerned, those of the nearest folder first, until one fails.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import pytest
from _pytest.runner import runtestprotocol

from tests.sim.defects import DEFECTS, Defect, find, plant

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
TABLE = Path(__file__).parent / "planted" / "unit.txt"
NOT_FOUND = "-"
TIMEOUT_S = 30
"""A test that takes longer than this has failed: a defect can make it wait forever."""
_HEAD = """\
# The unit test that finds each planted defect first, or - for none. Written by: ./run sim --planted --unit
"""
T = TypeVar("T")
R = TypeVar("R")


def found_by_unit_tests() -> dict[str, str]:
    """Return the recorded test of each defect, or NOT_FOUND."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def hunt_with_unit_tests(names: Collection[str], *, jobs: int) -> int:
    """Print which unit test finds each defect and record it. Return 1 if one is missed that was found before."""
    before = found_by_unit_tests()
    hunt = _Hunt([DEFECTS[name] for name in names], jobs)
    packages = {_place(file)[0] for defect in hunt.defects for file in plant(defect, ROOT)}
    folders = [str(TESTS / package) for package in sorted(packages) if (TESTS / package).is_dir()]
    os.environ.setdefault("HYPOTHESIS_PROFILE", "fast")
    words = ["-m", "fast", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys", f"--timeout={TIMEOUT_S}"]
    code = pytest.main([*words, f"--rootdir={ROOT}", *folders], plugins=[hunt])
    if len(hunt.found) != len(hunt.defects):
        print(f"the unit tests could not be collected or run: pytest ended with {code!r}", flush=True)
        return 2
    after = found_by_unit_tests()
    print(
        f"{sum(test != NOT_FOUND for test in after.values())} of {len(after)} planted defects are found by unit tests"
    )
    lost = [name for name, test in hunt.found.items() if test == NOT_FOUND and before.get(name, NOT_FOUND) != NOT_FOUND]
    for name in lost:
        print(f"{name} is not found any more; {before[name]} found it before")
    return 1 if lost else 0


def _record(name: str, test: str) -> None:
    table = {**found_by_unit_tests(), name: test}
    TABLE.write_text(_HEAD + "".join(f"{one} {table[one]}\n" for one in sorted(table) if one in DEFECTS))


class _Hunt:
    """A pytest plugin that runs the collected tests once per defect, in forks, instead of once."""

    def __init__(self, defects: Sequence[Defect], jobs: int) -> None:
        self.defects, self.jobs = defects, jobs
        self.found: dict[str, str] = {}
        self._no_evidence: set[tuple[str, str]] = set()
        """Defects with tests that failed once, and do not fail because of them."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run them. A test must fail again with the defect and pass without it, or the search continues."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        print()
        waiting = list(self.defects)
        while waiting:
            defects, waiting = waiting, []
            for defect, test in in_forks(defects, lambda one: self._first(session, one), self.jobs):
                if test != NOT_FOUND and not self._is_evidence(session, defect, test):
                    print(f"{defect.name}: does not count, since it also passes with it or fails without: {test}")
                    self._no_evidence.add((defect.name, test))
                    waiting.append(defect)
                    continue
                self.found[defect.name] = test
                _record(defect.name, test)
                print(f"{defect.name}: {test}", flush=True)
        return True

    def _first(self, session: pytest.Session, defect: Defect) -> str:
        files = list(plant(defect, ROOT))
        replace_code(defect)
        near = {item: max(_shared(item.path, file) for file in files) for item in session.items}
        items = [item for item in session.items if near[item] and (defect.name, item.nodeid) not in self._no_evidence]
        return next(_failures(session, sorted(items, key=lambda item: -near[item])), NOT_FOUND)

    def _is_evidence(self, session: pytest.Session, defect: Defect, test: str) -> bool:
        items = [item for item in session.items if item.nodeid == test]

        def fails(planted: bool) -> bool:
            if planted:
                replace_code(defect)
            return any(_failures(session, items))

        return all(failed is planted for planted, failed in in_forks((True, False), fails, 1))


def replace_code(defect: Defect) -> None:
    """Plant a defect in this process: its functions have the changed code from now on."""
    compiled = {file: compile(text, str(file), "exec", dont_inherit=True) for file, text in plant(defect, ROOT).items()}
    for change in defect.changes:
        file, path = find(change, ROOT).file, change.function.split(".")
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        code = compiled[file]
        for name in path:
            code = [one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name][-1]
        _function(module, path).__code__ = code


def _function(found: Any, path: Sequence[str]) -> FunctionType:
    for name in path:
        found = vars(found)[name]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        inner = (getattr(found, name, None) for name in ("__wrapped__", "__func__", "fget", "func"))
        found = next(one for one in inner if one is not None)
    return found


def _failures(session: pytest.Session, items: Sequence[pytest.Item]) -> Iterator[str]:
    """Run tests one after the other, and yield the names of those that fail."""
    try:
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                yield item.nodeid
    finally:
        with contextlib.suppress(BaseException):  # of a fixture that the defect broke
            session._setupstate.teardown_exact(None)


def _place(file: Path) -> tuple[str, ...]:
    """Return the folders of a module or of a test's file, as those of tests are called."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[1:] if parts[0] in ("mesos_gpu", "tests") else parts


def _shared(test: Path, module: Path) -> int:
    """Return how near a test is to a module: how many folders of the same names lead to both, or 0."""
    one, other = _place(test), (*_place(module)[:-1], f"test_{module.stem}")
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def in_forks(tasks: Iterable[T], work: Callable[[T], R], jobs: int) -> Iterator[tuple[T, R]]:
    """Do each task in a fork of this process, `jobs` at a time, and yield them with their results as they end."""
    context, waiting = multiprocessing.get_context("fork"), iter(tasks)
    running: dict[Any, tuple[T, Any]] = {}
    while True:
        for task in islice(waiting, jobs - len(running)):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(work, task, sender))
            process.start()
            sender.close()
            running[receiver] = task, process
        if not running:
            return
        for ready in wait(list(running)):
            task, process = running.pop(ready)
            result: R = cast(Any, ready).recv()
            process.join()
            yield task, result


def _answer(work: Callable[[T], R], task: T, sender: Any) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nothing, standard)
    sender.send(work(task))
    os._exit(0)
