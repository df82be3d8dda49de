from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console as RichConsole

from marathon_cli.console.console import watch


def looks(*texts: str) -> Callable[[], str]:
    """Return one text after the other, then end as Ctrl-C does."""
    left = iter(texts)

    def look() -> str:
        for text in left:
            return text
        raise KeyboardInterrupt

    return look


def test_elsewhere_than_on_a_terminal_only_what_differs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        watch(looks("a\n", "a\n", "b\n"), 0, None)
    assert capsys.readouterr().out == "a\n\nb\n"


def test_a_terminal_shows_it_in_place_and_never_more_than_fits() -> None:
    out = io.StringIO()
    screen = RichConsole(file=out, force_terminal=True, width=10, height=5, color_system=None)
    with pytest.raises(KeyboardInterrupt):
        watch(looks("a\nlonger than ten\n", "1\n2\n3\n4\n5\n6\n", "x\n"), 0, screen)
    written = out.getvalue()
    assert "longer \nthan ten" in written  # wrapped at the width, and 3 lines are cleared before the next text
    assert "6" not in written
    assert "..." in written
    assert written.count("\x1b[1A") >= 2, "each text takes the place of the last one"
    assert written.endswith("\x1b[?25h"), "the cursor is shown again"
