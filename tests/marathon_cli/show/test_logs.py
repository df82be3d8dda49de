"""A task's output may steer no terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from marathon_cli.show.logs import Printer

LOG: Any = SimpleNamespace(sandbox=SimpleNamespace(task_id="t"))
SAID = b"a\x1b]52;c;cm0gLXJm\x07b\x1b[1;31mred\x1b[0m\x1b[2J \xc2\x9d0;x \xc3\xa9\t\r\n"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_terminal_gets_colours_and_no_other_control_sequence(size: int) -> None:
    out = Terminal()
    printer = Printer(out, headlines=False)
    for at in range(0, len(SAID), size):
        printer.write(LOG, SAID[at : at + size])
    assert out.getvalue() == b"a]52;c;cm0gLXJmb\x1b[1;31mred\x1b[0m[2J 0;x \xc3\xa9\t\r\n"


def test_a_file_gets_every_byte() -> None:
    out = io.BytesIO()
    Printer(out, headlines=False).write(LOG, SAID)
    assert out.getvalue() == SAID
