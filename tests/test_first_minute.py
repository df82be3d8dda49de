"""The recordings of the first minute: how they are told, and that those that are kept show the commands of today."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.pages import blocks
from tests.support.places import ROOT
from tools.record_first_minute import HEIGHT, RECORDINGS, STORIES, WIDTH, Shown, asciicast, told


def test_lines_are_told_with_the_seconds_that_had_gone() -> None:
    shown = [Shown(0.0, "$ make\n"), Shown(1.26, "one\r\ntw"), Shown(2.5, "o\r\n\r\n")]
    assert told(shown) == "   0.0 s  $ make\n   1.3 s  one\n   2.5 s  two\n   2.5 s\n"


def test_what_is_written_over_or_taken_back_is_told_as_it_stood_last() -> None:
    progress = Shown(1.0, "\x1b[2K 1 of 9\r\x1b[2K 9 of 9\r\n\x1b[?25h\r")
    assert told([progress]) == "   1.0 s   9 of 9\n"
    assert told([progress, Shown(1.2, "\x1b[1A\x1b[2Kdone\r\n")]) == "   1.2 s  done\n"
    assert told([Shown(0.0, "\x1b[31mred\x1b[0m\n")]) == "   0.0 s  red\n"


def test_an_asciicast_has_a_head_and_its_lines_begin_at_the_left() -> None:
    head, event = map(json.loads, asciicast([Shown(0.12345, "a\nb\r\n")], "a title").splitlines())
    assert head == {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "a title"}
    assert event == [0.123, "o", "a\r\nb\r\n"]


@pytest.mark.parametrize("story", STORIES)
def test_a_recording_that_is_kept_shows_every_command_and_no_machine(story: str) -> None:
    text = (RECORDINGS / f"{story}.txt").read_text()
    typed = re.findall(r"^ *[\d.]+ s  \$ (.*)$", text, re.M)
    assert [command for command in typed if command in STORIES[story]] == list(STORIES[story])
    assert "NVIDIA-SMI" in text
    assert not re.search(r"Traceback|WARNING|ERROR|DEPRECATION|https?://(?!127\.0\.0\.1)", text)
    events = [json.loads(line) for line in (RECORDINGS / f"{story}.cast").read_text().splitlines()[1:]]
    assert told([Shown(at_s, shown) for at_s, _, shown in events]).count("\n") == text.count("\n")


@pytest.mark.parametrize("page", ["README", "docs/start/first-five-minutes", "docs/start/install"])
def test_both_languages_show_the_same_commands(page: str) -> None:
    shown = [
        [
            block.commands()
            for block in blocks(ROOT, ROOT / f"{page}{language}.md")
            if block.language in ("sh", "console")
        ]
        for language in ("", ".zh-CN")
    ]
    assert shown[0] == shown[1] != []
