"""In which language messages are: English, or Chinese for who has set LC_ALL, LC_MESSAGES or LANG to zh_CN.

Messages are made in English wherever they are made; what is shown goes through `told` last. So English costs nothing,
and Chinese (chinese.py) is imported where it is read. What commands answer with, values and tables, is the same in all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set counts. Source: POSIX.1-2017, Base Definitions, section 8.2."""
CHINESE = ("zh_cn", "zh_sg", "zh_hans", "zh-cn", "zh-hans")


def is_chinese(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for simplified Chinese."""
    chosen = next((environ[name] for name in VARIABLES if environ.get(name)), "")
    return chosen.lower().startswith(CHINESE)


def told(text: str, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return a message in the reader's language, or in English where the stream (stderr) cannot show that."""
    if not is_chinese(environ):
        return text
    from marathon_cli.screen.chinese import in_chinese

    chinese = in_chinese(text)
    try:
        chinese.encode((stream or sys.stderr).encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text
    return chinese


class _Telling:
    """Standard output whose whole lines are told in the reader's language."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._line = stream, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._stream.write(told(line, self._stream) + "\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def telling_output(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Tell what is printed meanwhile in the reader's language; for what is printed below the command line."""
    if not is_chinese(environ):
        yield
        return
    stream = sys.stdout
    sys.stdout = _Telling(stream)
    try:
        yield
    finally:
        sys.stdout = stream
