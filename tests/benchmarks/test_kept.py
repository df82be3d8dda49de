"""Runs that are recorded, the page of them, and ./run bench check, on a benchmark of the tests' own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import check
from benchmarks.kept import running
from benchmarks.kept.figures import Figure
from benchmarks.kept.page import HEAD, number, page, row
from benchmarks.kept.results import Run, read_run, recorded
from tools.make_measurements import PAGE, measurements_page

ROOT = Path(__file__).parents[2]
MACHINE = {"processors": 2, "cpu": "Some CPU", "kernel": "6.18", "cgroups": "hybrid"}
FIGURE = Figure("a", "what a|b is", 1042.0, "ms", "bare", 2084.0, 0.5, aim=0.4)
RUN = Run("launch", ["--runs", "3"], "2026-11-23", "0123abcd", MACHINE, [0.2, 1.5], [FIGURE], "on a train")


def test_the_page_of_measurements_is_in_step() -> None:
    assert PAGE.read_text() == measurements_page(), "out of date; run .venv/bin/python -m tools.make_measurements"


def test_every_recorded_run_is_of_a_benchmark_that_there_is() -> None:
    for name, run in recorded().items():
        assert (ROOT / "benchmarks" / f"{run.bench}.py").exists(), name
        assert run.figures, name


def test_what_is_kept_for_check_is_of_quick_benchmarks() -> None:
    document = json.loads(check.BASELINE.read_text())
    assert set(document["ratios"]) == set(document["taken"]) == set(check.QUICK)
    assert all(ratio > 0 for ratios in document["ratios"].values() for ratio in ratios.values())


def test_a_run_reads_back_as_it_was_written() -> None:
    assert read_run(RUN.to_text()) == RUN


def test_figures_go_where_a_part_says_and_others_to_the_end() -> None:
    text = page(["# Head\n", "before\n\n<!-- figures: one -->\n\nafter\n"], {"one": RUN, "two": RUN})
    line = "| what a\\|b is | 1 042 ms | bare: 2 084 ms | 0.5 | at most 0.4: not reached |\n"
    said = (
        "`./run bench launch --runs 3` on 2026-11-23, commit 0123abcd: 2 x Some CPU, Linux 6.18, cgroups hybrid, "
        "load 0.2 before and 1.5 after. On a train."
    )
    assert text.startswith(f"{HEAD}# Head\n")
    assert row(FIGURE) == line
    before, between, after = text.partition("\nafter\n")[0], text.count(said), text.partition("## two")[2]
    assert (said in before, between, said in after, text.count(line)) == (True, 2, True, 2)


def test_a_place_without_a_run_says_how_to_record_one() -> None:
    assert "Not recorded yet: `./run bench record one`." in page(["<!-- figures: one -->\n"], {})


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.000888, "0.000888"), (1.254, "1.25"), (99.96, "100"), (161.4, "161"), (2082000.0, "2 082 000")],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert number(value) == said


BENCH = """\
import os
from pathlib import Path

from benchmarks.kept import figure

turns = Path(os.environ["TURNS"])
ratios = turns.read_text().split()
turns.write_text(" ".join(ratios[1:]))
if ratios[0] == "broken":
    raise SystemExit("there is no such program")
figure("key", "what it is", 1.0, ratio=float(ratios[0]))
print("it says much")
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark whose ratio is 1 in baseline.json; the file that is returned has those of its next runs."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "mine.py").write_text(BENCH)
    (tmp_path / "benchmarks" / "kept").symlink_to(ROOT / "benchmarks" / "kept")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"ratios": {"mine": {"key": 1.0}}, "taken": {}}))
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(check, "BASELINE", baseline)
    monkeypatch.setattr(check, "QUICK", {"mine": ()})
    monkeypatch.setenv("TURNS", str(tmp_path / "turns"))
    monkeypatch.setenv("PYTHONPATH", "")
    return tmp_path / "turns"


def test_no_quick_benchmark_of_a_name_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["check", "lanch"])
    with pytest.raises(SystemExit):
        check.main()
    assert "no quick benchmark is called lanch" in capsys.readouterr().err
