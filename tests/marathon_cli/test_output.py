from __future__ import annotations

import sys

import pytest

from marathon_cli.output import show_json, show_table

COLUMNS = ("ID", "GPUS", "CMD")
ROWS = [["/a", 2, "echo [red]"], ["/longer", 10, None]]


def test_a_pipe_gets_plain_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(COLUMNS, [*ROWS, ["/b", 0, "x" * 300]], numbers=("GPUS",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["ID       GPUS  CMD", "/a          2  echo [red]", "/longer    10"]
    assert lines[3].endswith("x" * 300)


def test_a_terminal_gets_the_same_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    show_table(COLUMNS, ROWS, numbers=("GPUS",))
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert words == [["ID", "GPUS", "CMD"], ["/a", "2", "echo", "[red]"], ["/longer", "10"]]


def test_a_table_without_rows_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(COLUMNS, [])
    assert capsys.readouterr().out == "ID  GPUS  CMD\n"


def test_json_is_readable_and_keeps_letters(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "é"})
    assert capsys.readouterr().out == '{\n  "name": "é"\n}\n'
