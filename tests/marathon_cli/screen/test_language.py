"""Messages of the first minute in Chinese: who gets them, that nothing is lost in them, and that the code says so."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from functools import cache

import pytest

from marathon_cli.screen.chinese import CHINESE, COMPOSED, NAME, in_chinese
from marathon_cli.screen.language import is_chinese, told
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("environ", "chinese"),
    [
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "zh_CN"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "zh_TW.UTF-8"}, False),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, False),
        ({"LC_ALL": "", "LC_MESSAGES": "zh_CN.utf8", "LANG": "C"}, True),
        ({}, False),
    ],
)
def test_the_first_variable_that_is_set_chooses(environ: dict[str, str], chinese: bool) -> None:
    assert is_chinese(environ) is chinese


def filled(text: str) -> str:
    """Return a message with a value for each name."""
    return NAME.sub(lambda name: {"app": "/web"}.get(name[1], "7"), text)


@pytest.mark.parametrize(("english", "chinese"), CHINESE.items())
def test_a_message_is_told_with_all_that_was_filled_in(english: str, chinese: str) -> None:
    assert in_chinese(filled(english)) == filled(chinese)


def test_lines_keep_their_indentation_and_places() -> None:
    english, chinese = next((one, other) for one, other in CHINESE.items() if not NAME.search(one))
    lines = "mesos-gpu: {0}\n    {0}\napp.json:4:3: /gpu: {0}\nwhat nobody has translated: http://x"
    assert in_chinese(lines.format(english)) == lines.format(chinese)


def test_what_a_stream_cannot_show_stays_english() -> None:
    environ = {"LANG": "zh_CN"}
    english, chinese = next((one, other) for one, other in CHINESE.items() if not NAME.search(one))
    for encoding, expected in (("ascii", english), ("utf-8", chinese)):
        assert told(english, io.TextIOWrapper(io.BytesIO(), encoding), environ) == expected
    assert told(english, None, {}) == english


@cache
def said() -> str:
    """Return every text of the code, a line each, with {} where something is filled in."""
    lines: list[str] = []
    for package in ("marathon_cli", "mesos_gpu"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name == "chinese.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
                    lines.append("".join(parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    lines.append(node.value)
    return "\n".join(lines)


@pytest.mark.parametrize("english", [one for one in CHINESE if one not in COMPOSED])
def test_each_message_is_one_that_the_code_says(english: str) -> None:
    assert NAME.sub("{}", english) in said(), "the code says it otherwise now: change both"


@pytest.mark.parametrize(("english", "chinese"), CHINESE.items())
def test_what_is_filled_in_and_what_is_typed_is_the_same_in_both(english: str, chinese: str) -> None:
    assert sorted(NAME.findall(english)) == sorted(NAME.findall(chinese))
    assert sorted(re.findall(r"`[^`]*`", english)) == sorted(re.findall(r"`[^`]*`", chinese))
    assert re.search("[\u4e00-\u9fff：]", chinese)


def test_english_imports_no_chinese() -> None:
    code = "import sys, marathon_cli.main; from marathon_cli.screen.output import say; say('x'); "
    code += "print('marathon_cli.screen.chinese' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env={"LANG": "C.UTF-8"})
    assert done.stdout == "False\n"
