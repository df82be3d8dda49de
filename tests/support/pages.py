"""Blocks of code in the pages of documentation, and what the comment before one says of it.

<!-- docs-test: not run: it needs a cluster -->      looked at, not run: every command and flag in it exists
<!-- docs-test: any status -->                       run, whatever it ends with
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCED = re.compile(r"^(?P<comment> *<!-- docs-test: (?P<mark>.*?) -->\n)?(?P<indent> *)```(?P<language>\w+)\n", re.M)
NOT_RUN = "not run: "
ASSIGNMENT = re.compile(r"[A-Z_]+=")


class Block(NamedTuple):
    """A fenced block: its page, by its path from the top, and line; what it holds, and its mark ("" if it has none)."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith(NOT_RUN)

    def commands(self) -> str:
        """Return what a shell is given: all of it, or, of what a terminal showed, the lines behind a prompt."""
        if self.language != "console":
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith("$ "))


def blocks(root: Path, page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    start = 0
    while (found := FENCED.search(text, start)) is not None:
        indent = found["indent"]
        start = text.index(f"\n{indent}```", found.end() - 1) + len(indent) + 4
        lines = text[found.end() : start - len(indent) - 3].splitlines(keepends=True)
        content = "".join(line.removeprefix(indent) for line in lines)
        line = text.count("\n", 0, found.start()) + (2 if found["comment"] else 1)
        yield Block(str(page.relative_to(root)), line, found["language"], content, found["mark"] or "")


def calls(program: str, text: str) -> Iterator[list[str]]:
    """Yield the words that a shell's lines give to a program each time; placeholders (`...`) are left out."""
    for line in text.replace("\\\n", " ").splitlines():
        for words in _simple_commands(line):
            if words and words[0].rpartition("/")[2] == program:
                yield [word for word in words[1:] if word != "..."]


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without variables set before it and without sudo."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set("();<>|&"):
                yield words
                words = []
            elif words or not (word == "sudo" or ASSIGNMENT.match(word)):
                words.append(word)
    except ValueError:  # a text over several lines
        pass
    yield words
