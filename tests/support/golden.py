"""Golden files: the texts that commands, endpoints and errors print are kept in tests/words, one file per test module.

    def test_too_few_gpus(golden: Golden) -> None:
        with pytest.raises(NotEnoughGpus) as refused:
            pool.allocate(CONTAINER, 3)
        assert refused.value.free == 2
        assert str(refused.value) == golden

Each comparison takes the next entry of the running test. `golden` can also be part of a larger value:
`assert response == {"code": 404, "message": golden}`. `./run golden [PATHS]` rewrites the entries of the tests that it
runs and removes the entries that no test uses; an unused entry makes every other run fail. `_VARIABLE` replaces what
differs between two runs; `golden.hide(pid=child.pid)` does so for values that only the test knows.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import mesos_gpu

REPOSITORY = Path(__file__).resolve().parents[2]
REWRITE = "--rewrite-golden"

_UUID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[14][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b"
"""Random or made of the time; those that tests choose have other version digits, and stay."""
_VARIABLE = (
    (re.escape(str(Path(tempfile.gettempdir()))) + r"/tmp[a-z0-9_]{8}\b", "<temporary>"),
    (re.escape(sys.prefix) + r"(?=/|\b)", "<environment>"),
    (re.escape(str(REPOSITORY)) + r"(?=/|\b)", "<repository>"),
    (re.escape(mesos_gpu.__version__), "<version>"),
    (_UUID, "<uuid>"),
    (r"\bsha256:[0-9a-f]{64}\b", "sha256:<digest>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d\b)?", "<time>"),
    (r"\b0x[0-9a-f]{8,}\b", "<address>"),
    (r"\b_ssl\.c:\d+", "_ssl.c:<line>"),
    # The ports that Linux gives to servers that ask for any: 32768 to 60999.
    (
        r"(?:(?<=[\w\]]:)|(?<=', )|(?<=port ))"
        r"(?:3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|[45]\d{4}|60\d{3})\b",
        "<port>",
    ),
)


class Golden:
    """Equals the text that the golden file has for the running test at this point."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, entries: Mapping[str, str], folder: Path, rewriting: bool) -> None:
        self._name, self._entries, self._rewriting = name, entries, rewriting
        self._hidden = [(re.escape(str(folder)) + r"/[^/\s'\"]+?\d+(?=\W|$)", "<tmp_path>")]
        self.texts: list[str] = []

    def hide(self, **values: object) -> Golden:
        """Replace each value with its name in angle brackets in this comparison and later ones of the test."""
        self._hidden += [(rf"(?<!\w){re.escape(str(value))}(?!\w)", f"<{name}>") for name, value in values.items()]
        return self

    def __eq__(self, value: object) -> bool:
        __tracebackhide__ = True
        if not value:
            pytest.fail(f"{value!r} is not a text for a golden file: assert that there is none")
        text = readable(value)
        for pattern, replacement in (*self._hidden, *_VARIABLE):
            text = re.sub(pattern, replacement, text)
        self.texts.append(text)
        entry = entry_name(self._name, len(self.texts))
        if not self._rewriting and text != self._entries.get(entry):
            expected = self._entries.get(entry, "").splitlines()
            lines = difflib.unified_diff(expected, text.splitlines(), "tests/words", "this run", lineterm="", n=100)
            pytest.fail("\n".join([f"{entry}: not the text of the golden file (./run golden rewrites it)", *lines]))
        return True


def readable(value: object) -> str:
    """Return a text as it is, without spaces at ends of lines; strings in a list as items; anything else as JSON."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) for one in value):
        value = "\n".join("- " + one.replace("\n", "\n  ") for one in value)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    lines = ["".join(c if c.isprintable() else ascii(c)[1:-1] for c in line.rstrip()) for line in text.split("\n")]
    return "\n".join(lines).rstrip("\n")


def entry_name(test: str, number: int) -> str:
    """Return the line above the text of a comparison: the first has the test's name."""
    return test if number == 1 else f"{test} {number}"


def parsed(document: str) -> dict[str, str]:
    """Return the entries of a golden file."""
    entries: dict[str, list[str]] = {}
    for line in document.split("\n"):
        if line and not line.startswith(" "):
            entries[line] = []
        elif entries:
            entries[list(entries)[-1]].append(line[4:])
    return {name: "\n".join(lines).rstrip("\n") for name, lines in entries.items()}


def formatted(entries: Mapping[str, str]) -> str:
    """Return a golden file: names of entries in column 1, texts indented."""
    blocks = [
        "\n".join([name, *(f"    {line}".rstrip() for line in entries[name].split("\n"))])
        for name in sorted(entries, key=_order)
    ]
    return "\n\n".join(blocks) + "\n"


def _order(name: str) -> tuple[str, int]:
    test, number = _split(name)
    return re.sub(r"\d+", lambda digits: digits[0].zfill(9), test), number


def _split(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*[\w\]]) (\d+)", name)
    return (found[1], int(found[2])) if found else (name, 1)


def unused(entries: Iterable[str], source: str, collected: set[str] | None, counts: Mapping[str, int]) -> list[str]:
    """Return the entries that no test compares with.

    `collected` has the tests of the module that use golden files, with all their parameters; None if only some of them
    were collected. `counts` has the comparisons of each test that passed.
    """
    functions = set(re.findall(r"def (test_\w+)", source))
    found = []
    for entry in entries:
        test, number = _split(entry)
        gone = re.split(r"\[", test, maxsplit=1)[0].rpartition("::")[2] not in functions
        if gone or (collected is not None and test not in collected) or number > counts.get(test, number):
            found.append(entry)
    return found


# The pytest plugin: workers of pytest-xdist send what they saw to the process that runs them, which writes the files.

_golden = pytest.StashKey[Golden]()
_files = pytest.StashKey[dict[Path, dict[str, str]]]()
_seen = pytest.StashKey[dict[str, dict[str, Any]]]()
"""By module: `collected` tests (or None), and `texts` of each test that passed."""
_found = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        REWRITE, action="store_true", help="run the tests with golden files, and rewrite those (tests/words)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_files], config.stash[_seen], config.stash[_found] = {}, {}, []


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    files, file = request.config.stash[_files], _file_of(request.config, request.node.path)
    if file not in files:
        files[file] = parsed(file.read_text()) if file.exists() else {}
    made = Golden(_name(request.node), files[file], tmp_path_factory.getbasetemp(), request.config.getoption(REWRITE))
    request.node.stash[_golden] = made
    return made


def _file_of(config: pytest.Config, module: Path) -> Path:
    tests = config.rootpath / "tests"
    return tests / "words" / module.relative_to(tests).with_suffix(".txt")


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    partial = any("::" in str(word) for word in config.args) or getattr(config.option, "lf", False)
    seen = config.stash[_seen]
    for item in items:
        if _uses(item) or _file_of(config, item.path).exists():
            of_module = seen.setdefault(str(item.path), {"collected": None if partial else [], "texts": {}})
            if _uses(item) and not partial:
                of_module["collected"].append(_name(item))
    if config.getoption(REWRITE):
        items[:] = [item for item in items if _uses(item)]


def _uses(item: pytest.Item) -> bool:
    return "golden" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if call.when == "call" and report.passed and _golden in item.stash:
        item.config.stash[_seen][str(item.path)]["texts"][_name(item)] = item.stash[_golden].texts
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    seen = node.config.stash[_seen]
    for module, of_module in getattr(node, "workeroutput", {}).get("golden", {}).items():
        seen.setdefault(module, of_module)["texts"].update(of_module["texts"])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["golden"] = config.stash[_seen]
        return
    tests = config.rootpath / "tests"
    for file in (tests / "words").rglob("*.txt"):
        module = tests / file.relative_to(tests / "words").with_suffix(".py")
        if not module.exists():
            config.stash[_seen][str(module)] = {"collected": [], "texts": {}}
    for name, of_module in config.stash[_seen].items():
        _compare_with_file(config, Path(name), of_module)
    if config.stash[_found]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _compare_with_file(config: pytest.Config, module: Path, seen: Mapping[str, Any]) -> None:
    """Rewrite the golden file of a module, or find its unused entries."""
    file = _file_of(config, module)
    entries = parsed(file.read_text()) if file.exists() else {}
    if rewriting := config.getoption(REWRITE):
        for test, texts in seen["texts"].items():
            entries |= {entry_name(test, i): text for i, text in enumerate(texts, 1)}
    collected = None if seen["collected"] is None else set(seen["collected"])
    counts = {test: len(texts) for test, texts in seen["texts"].items()}
    found = unused(entries, module.read_text() if module.exists() else "", collected, counts)
    if rewriting:
        _write(file, {entry: text for entry, text in entries.items() if entry not in found})
    else:
        config.stash[_found] += [f"{file.relative_to(config.rootpath)}: {entry}" for entry in found]


def _write(file: Path, entries: Mapping[str, str]) -> None:
    if entries:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(formatted(entries))
    else:
        file.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for entry in config.stash[_found]:
        terminalreporter.write_line(f"FAILED: no test uses this entry (./run golden removes it): {entry}", red=True)
