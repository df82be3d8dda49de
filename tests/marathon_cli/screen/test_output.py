from __future__ import annotations

import pytest
import yaml

from marathon_cli.screen.output import Column, Output, Table, columns, printable, render, table_lines
from mesos_gpu.errors import BadInput

COLUMNS = columns("ID", "GPUS", "CMD", numbers=("GPUS",))
ROWS = [["/a", 2, "echo [red]"], ["/longer", 10, None]]
RANKED = (Column("ID"), Column("ROLE", rank=1), Column("CMD", rank=2, cut=True))
VALUE = [{"id": "/a", "name": "é"}, {"id": "/b", "version": "2026-01-01T00:00:00.000Z"}]


def test_a_pipe_gets_plain_columns_that_are_never_cut() -> None:
    table = Table(COLUMNS, [*ROWS, ["/b", 0, "x" * 300]])
    lines = render([], Output.of("table"), table=lambda: table, names=[]).splitlines()
    assert lines[:3] == ["ID       GPUS  CMD", "/a          2  echo [red]", "/longer    10"]
    assert lines[3].endswith("x" * 300)


def test_a_terminal_has_a_bold_header_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert table_lines(Table(COLUMNS, ROWS), width=80)[0] == "\x1b[1mID       GPUS  CMD\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert table_lines(Table(COLUMNS, ROWS), width=80)[0] == "ID       GPUS  CMD"


@pytest.mark.parametrize(
    ("width", "header", "row"),
    [
        (60, "ID         ROLE  CMD", "/training  *     python train.py --epochs 90"),
        (30, "ID         ROLE  CMD", "/training  *     python train…"),
        (20, "ID         ROLE", "/training  *"),
        (10, "ID", "/training"),
        (3, "ID", "/training"),
    ],
)
def test_a_narrow_terminal_loses_long_text_first_and_ids_never(
    width: int, header: str, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    table = Table(RANKED, [["/training", "*", "python train.py --epochs 90"]])
    assert table_lines(table, width=width) == [header, row]


def test_a_narrow_terminal_gets_short_forms_before_anything_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    ids = Column("ID", short=lambda cells: [cell[-2:] for cell in cells])
    table = Table((Column("APP", rank=1), ids), [["/train", "train.instance-17"], ["/web", "web.instance-18"]])
    assert table_lines(table, width=25)[1:] == ["/train  train.instance-17", "/web    web.instance-18"]
    assert table_lines(table, width=24) == ["APP     ID", "/train  17", "/web    18"]
    assert table_lines(table, width=9) == ["ID", "17", "18"]
    assert table_lines(Table((Column("APP"), ids)), width=2) == ["APP  ID"]


def test_what_a_row_is_about_has_its_own_line_when_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    table = Table(
        (Column("ID"), Column("GPUS", number=True), Column("HOLDER", cut=True), Column("MORE", rank=1)),
        [["/training", 2, "a long name", "x"], ["/b", 10, "c", "y"]],
    )
    assert table_lines(table, width=29)[1] == "/training     2  a long name"
    assert table_lines(table, width=21) == [
        *("ID", "  GPUS  HOLDER   MORE"),
        *("/training", "     2  a long…  x"),
        *("/b", "    10  c        y"),
    ]
    assert table_lines(table, width=14)[1] == "  GPUS  HOLDER"
    assert table_lines(table, width=9)[0] == "ID         GPUS  HOLDER"


def test_letters_that_take_two_columns_stay_under_their_header() -> None:
    lines = table_lines(Table(columns("A", "B"), [["日本", "x"], ["ab", "y"]]), width=None)
    assert lines == ["A     B", "日本  x", "ab    y"]


def test_a_cell_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert printable("naïve 日本") == "naïve 日本"


def test_a_table_without_rows_has_its_header() -> None:
    assert table_lines(Table(COLUMNS), width=None) == ["ID  GPUS  CMD"]


def test_json_is_readable_and_keeps_letters() -> None:
    text = render({"name": "é"}, Output.of("json"), table=lambda: Table(()), names=[])
    assert text == '{\n  "name": "é"\n}\n'


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "ID\n/a\n/b\n"),
        ("wide", "ID\n/a\n/b\n"),
        ("name", "/a\n/b\n"),
        ("jsonpath={[*].id}", "/a /b\n"),
        ("jsonpath=[0].name", "é\n"),
        ("jsonpath={.nothing}", ""),
        ('jsonpath={range [*]}{.id}{"\\n"}{end}', "/a\n/b\n"),
    ],
)
def test_every_form_of_one_value(form: str, text: str) -> None:
    table = Table(columns("ID"), [["/a"], ["/b"]])
    assert render(VALUE, Output.of(form), table=lambda: table, names=["/a", "/b"]) == text


def test_yaml_reads_back_as_the_same_value() -> None:
    value = {"a": VALUE, "text": "yes", "lines": "x\ny", "none": None, "one": 1.0}
    printed = render(value, Output.of("yaml"), table=lambda: Table(()), names=[])
    assert yaml.safe_load(printed) == value
    assert "é" in printed


@pytest.mark.parametrize("form", ["tabel", "json=x", "jsonpath", "jsonpath=", "jsonpath={[}", ""])
def test_another_form_is_refused(form: str) -> None:
    with pytest.raises(BadInput):
        Output.of(form)
