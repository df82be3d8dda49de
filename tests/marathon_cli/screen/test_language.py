"""Messages of the first minute in Chinese: who gets them, that nothing is lost in them, and that the code says so."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from functools import cache

import pytest

from marathon_cli.screen.chinese import CHINESE, NAME, in_chinese
from marathon_cli.screen.language import is_chinese, told
from tests.support.places import ROOT

OF_MARATHON = ("An app with id [{app}] already exists.",)
"""What a server says, as Marathon does."""


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


def test_a_message_is_told_line_by_line_with_all_that_was_filled_in() -> None:
    refused = (
        "mesos-gpu: app.json: 2 problems; nothing was changed\n"
        "app.json:4:3: /gpu: unknown key `gpu`\n"
        "    did you mean `gpus`?\n"
        'app.json:5:3: /cpus: `cpus` must be a number, but is the text "1"\n'
        "    write 1 without quotes"
    )
    assert in_chinese(refused) == (
        "mesos-gpu: app.json：2 个问题；没有做任何改动\n"
        "app.json:4:3: /gpu: 未知的键 `gpu`\n"
        "    是不是 `gpus`？\n"
        'app.json:5:3: /cpus: `cpus` 应为数字，实际是 文本 "1"\n'
        "    去掉引号，写成 1"
    )
    assert in_chinese("Created deployment 1-2: adds /web") == "已创建部署 1-2：新增 /web"
    assert in_chinese("what nobody has translated: http://x") == "what nobody has translated: http://x"


def test_what_a_stream_cannot_show_stays_english() -> None:
    environ = {"LANG": "zh_CN"}
    for encoding, expected in (("ascii", "Ctrl-C stops it all."), ("utf-8", CHINESE["Ctrl-C stops it all."])):
        assert told("Ctrl-C stops it all.", io.TextIOWrapper(io.BytesIO(), encoding), environ) == expected
    assert told("Ctrl-C stops it all.", None, {}) == "Ctrl-C stops it all."


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


COMPOSED = (
    "agent     {url}  {gpus}, simulated",
    "agent     {url}  {gpus}, simulated ({why})",
    "mesos-gpu-{service}: {why}",
    "{n} of {count} running, {others}",
    "interrupted; {what}",
    "{names} is not there yet after {seconds} s; the deployment {id} continues",
    "{name} has not started within {seconds} s: {why}",
    "{name} is removed",
    "No agent could ever run {app}: {wish}. It will wait.",
    "ask for at most {count} GPUs, as many as one agent has (the GPUs of one instance are on one machine)",
    "it has {count} GPUs, and {wanted} are wanted",
    "{file}: {problems}; nothing was changed",
)
"""Messages that the code puts together; tests of what is shown in English hold their words."""


@pytest.mark.parametrize("english", [one for one in CHINESE if one not in COMPOSED and one not in OF_MARATHON])
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
