from __future__ import annotations

import pytest

from marathon_cli.console.console import Watcher
from tests.support.golden import Golden


def test_elsewhere_than_on_a_terminal_only_what_differs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Watcher(terminal=None)
    for text in ("a\n", "a\n", "b\n"):
        watcher.show(text)
    assert capsys.readouterr().out == "a\n\nb\n"


def test_a_terminal_shows_it_in_place_and_never_more_than_fits(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    watcher = Watcher(terminal=(10, 5))
    watcher.show("a\nlonger than ten\n")
    watcher.show("1\n2\n3\n4\n5\n6\n")
    watcher.show("x\n")
    assert capsys.readouterr().out == golden
