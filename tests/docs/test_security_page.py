"""The page of walls: each attack that it counts is repeated by a test that is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.security_page import COMMAND, ROOT, ROWS


def commands() -> list[tuple[str, str]]:
    """Return the files that the table of what was tried names, each with what it chooses there."""
    return sorted({(path, quoted or plain) for row in ROWS for path, quoted, plain in COMMAND.findall(row)})


def test_each_row_says_what_was_tried_and_how_to_repeat_it() -> None:
    assert len(ROWS) > 35
    for row in ROWS:
        attack, tried, held, _, command = [cell.strip() for cell in row.strip().strip("|").split("|")]
        assert attack
        assert re.search(r"\d|every|each", tried), row
        assert held
        assert COMMAND.search(command), row


@pytest.mark.parametrize(("path", "chosen"), commands())
def test_what_repeats_it_is_there(path: str, chosen: str) -> None:
    names = {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    for word in re.split(r" or ", chosen) if chosen else [""]:
        assert any(word in name for name in names), f"{path} has no test with {word!r} in its name"
