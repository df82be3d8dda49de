from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import Golden, formatted, parsed, readable, unused

MODULE = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_numbers(golden, tmp_path, n):
    assert f"{n} of {tmp_path}/x" == golden
    assert {"code": n, "message": "no GPU is free"} == {"code": n, "message": golden}

def test_process(golden):
    assert "process 4711 ended" == golden.hide(pid=4711)

def test_other():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]")
    pytester.makeconftest('pytest_plugins = ["tests.support.golden"]')
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "test_it.py").write_text(MODULE)
    return pytester


def golden_file(project: pytest.Pytester) -> Path:
    return project.path / "tests" / "words" / "test_it.txt"


def run(project: pytest.Pytester, *words: str) -> dict[str, int]:
    return project.runpytest_inprocess("-p", "no:cacheprovider", *words).parseoutcomes()


def test_rewriting_makes_later_runs_pass(project: pytest.Pytester) -> None:
    assert run(project) == {"failed": 3, "passed": 1}
    assert run(project, "--rewrite-golden") == {"passed": 3}
    assert golden_file(project).read_text() == (
        "test_numbers[1]\n    1 of <tmp_path>/x\n\ntest_numbers[1] 2\n    no GPU is free\n\n"
        "test_numbers[2]\n    2 of <tmp_path>/x\n\ntest_numbers[2] 2\n    no GPU is free\n\n"
        "test_process\n    process <pid> ended\n"
    )
    assert run(project) == {"passed": 4}


def test_another_text_fails(project: pytest.Pytester) -> None:
    run(project, "--rewrite-golden")
    golden_file(project).write_text(golden_file(project).read_text().replace("no GPU", "one GPU"))
    assert run(project) == {"failed": 2, "passed": 2}
    assert run(project, "--rewrite-golden", "tests/test_it.py::test_numbers[1]") == {"passed": 1}
    assert run(project) == {"failed": 1, "passed": 3}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_process(golden)", "def test_another(golden)"),
        ("[1, 2]", "[2]"),
        ('"message": golden', '"message": "no GPU is free"'),
    ],
)
def test_an_unused_entry_fails_the_run_and_is_removed_by_rewriting(
    project: pytest.Pytester, old: str, new: str
) -> None:
    run(project, "--rewrite-golden")
    (project.path / "tests" / "test_it.py").write_text(MODULE.replace(old, new))
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-k", "test_other or numbers")
    assert (result.ret, "failed" in result.parseoutcomes()) == (pytest.ExitCode.TESTS_FAILED, False)
    run(project, "--rewrite-golden")
    assert project.runpytest_inprocess("-p", "no:cacheprovider").ret == 0


def test_a_golden_file_without_a_module_fails_every_run(project: pytest.Pytester) -> None:
    run(project, "--rewrite-golden")
    golden_file(project).rename(golden_file(project).with_name("test_gone.txt"))
    result = project.runpytest_inprocess("-p", "no:cacheprovider", "-k", "other")
    assert (result.ret, result.parseoutcomes()["passed"]) == (pytest.ExitCode.TESTS_FAILED, 1)
    run(project, "--rewrite-golden")
    assert not golden_file(project).with_name("test_gone.txt").exists()


@pytest.mark.slow
def test_workers_write_and_compare_the_same_file(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    workers = ("-p", "xdist", "-n", "2")
    assert project.runpytest_subprocess(*workers, "--rewrite-golden").parseoutcomes() == {"passed": 3}
    assert sorted(parsed(golden_file(project).read_text())) == [
        *("test_numbers[1]", "test_numbers[1] 2", "test_numbers[2]", "test_numbers[2] 2", "test_process")
    ]
    assert project.runpytest_subprocess(*workers).ret == 0
    golden_file(project).write_text(golden_file(project).read_text() + "\ntest_process 2\n    more\n")
    assert project.runpytest_subprocess(*workers).ret == pytest.ExitCode.TESTS_FAILED


def test_entries_survive_the_file() -> None:
    entries = {"test_a": "one\n\n    two", "test_b[x y]": "", "test_b[x y] 2": "é", "test_b[x y] 10": "z"}
    assert list(parsed(formatted(entries)).items()) == list(entries.items())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a  \nb\n\n", "a\nb"),
        ("\x1b[1mé\tx", "\\x1b[1mé\\tx"),
        (["one\ntwo", "three"], "- one\n  two\n- three"),
        ({"code": 404}, '{\n  "code": 404\n}'),
    ],
)
def test_values_are_readable(value: object, text: str) -> None:
    assert readable(value) == text


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("127.0.0.1:43210 and :5050", "127.0.0.1:<port> and :5050"),
        ("9f2c1c3a-5e0d-4d0b-9f5e-0123456789ab-S0", "<uuid>-S0"),
        ("GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000001"),
        ("at 2026-01-02T03:04:05.678Z", "at <time>"),
        (f"{Path(__file__)}:3", "<repository>/tests/test_golden.py:3"),
    ],
)
def test_what_varies_is_replaced(text: str, normal: str, tmp_path: Path) -> None:
    assert text == Golden("test", {"test": normal}, tmp_path, rewriting=False)


def test_an_entry_is_unused_when_its_test_or_comparison_is_gone() -> None:
    entries = ["test_a", "test_a 2", "test_b[1]", "test_b[2]", "test_c"]
    source = "def test_a(golden):\nasync def test_b(golden, n):\n"
    assert unused(entries, source, None, {}) == ["test_c"]
    assert unused(entries, source, {"test_a", "test_b[2]"}, {"test_a": 1}) == ["test_a 2", "test_b[1]", "test_c"]
