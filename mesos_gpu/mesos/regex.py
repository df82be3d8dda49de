"""Regular expressions of strangers, matched in bounded time.

Mesos matches offer constraints with RE2, which never backtracks; Python's `re` does, and one pattern of a framework
could stop the master for hours, or one of an app Marathon. So its parser reads the pattern, and matching goes over sets
of positions: a text of n characters and a pattern of m parts take at most m * n * n steps. What RE2 lacks (look-around,
back references) is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as parser
else:
    import sre_constants as sre
    import sre_parse as parser

MAX_REGEX = 1000
"""Characters of a pattern."""
MAX_TIMES = 1000
"""What a repeat may count to, as in RE2."""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_SUPPORTED = frozenset(
    {"LITERAL", "NOT_LITERAL", "ANY", "IN", "BRANCH", "SUBPATTERN", "AT", "RANGE", "NEGATE", "CATEGORY"}
)
_PLACES = frozenset({"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"})
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": lambda c: c.isascii() and c.isdigit(),
    "SPACE": lambda c: c in " \t\n\r\f\v",
    "WORD": lambda c: c == "_" or (c.isascii() and c.isalnum()),
}


class Pattern:
    """A compiled regular expression."""

    def __init__(self, regex: str, *, ignore_case: bool = False) -> None:
        """Take an expression; with `ignore_case` the letters A to Z match in either case.

        Raises ValueError that says what is wrong with it.
        """
        if len(regex) > MAX_REGEX:
            raise ValueError(f"Regex is too complex: {len(regex)} characters are more than the {MAX_REGEX} allowed")
        try:
            parsed = parser.parse(regex)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"Failed to construct regex from pattern '{regex}': {error}") from None
        if parsed.state.flags & ~re.UNICODE:
            raise ValueError(f"Failed to construct regex from pattern '{regex}': flags are not supported")
        self._ignore_case = ignore_case
        self._parts: list[tuple[Any, Any]] = list(parsed.data)
        _check(regex, self._parts)

    def fullmatch(self, text: str) -> bool:
        """Return whether all of `text` matches."""
        characters = (
            [c + c.swapcase() if c.isascii() and c.isalpha() else c for c in text] if self._ignore_case else text
        )
        return len(text) in _ends(self._parts, characters, {0})


def _check(regex: str, parts: Iterable[tuple[Any, Any]]) -> None:
    for op, value in parts:
        name = str(op)
        if name in _REPEATS:
            low, high, inner = value
            if low > MAX_TIMES or (high is not sre.MAXREPEAT and high > MAX_TIMES):
                raise ValueError(f"Regex '{regex}' is too complex: it repeats something more than {MAX_TIMES} times")
            _check(regex, inner)
        elif name == "BRANCH":
            for branch in value[1]:
                _check(regex, branch)
        elif name == "SUBPATTERN":
            if value[1] or value[2]:
                raise ValueError(f"Failed to construct regex from pattern '{regex}': flags are not supported")
            _check(regex, value[3])
        elif name not in _SUPPORTED or (name == "AT" and str(value) not in _PLACES):
            raise ValueError(f"Failed to construct regex from pattern '{regex}': {name.lower()} is not supported")


def _ends(parts: Iterable[tuple[Any, Any]], text: Sequence[str], starts: set[int]) -> set[int]:
    """Return where a match of `parts` that begins at one of `starts` may end.

    `text` has for each place the characters that count as standing there: one, or a letter in both cases.
    """
    for op, value in parts:
        if not starts:
            break
        name = str(op)
        if name in _REPEATS:
            low, high, inner = value
            starts = _repeated(low, high, inner, text, starts)
        elif name == "BRANCH":
            starts = set().union(*(_ends(branch, text, starts) for branch in value[1]))
        elif name == "SUBPATTERN":
            starts = _ends(value[3], text, starts)
        elif name == "AT":
            place = 0 if "BEGINNING" in str(value) else len(text)
            starts = starts & {place}
        else:
            starts = {at + 1 for at in starts if at < len(text) and _fits(name, value, text[at])}
    return starts


def _repeated(low: int, high: Any, inner: Any, text: Sequence[str], starts: set[int]) -> set[int]:
    for _ in range(low):
        after = _ends(inner, text, starts)
        if after == starts:
            break
        starts = after
    found, newest, times = set(starts), starts, low
    while newest and (high is sre.MAXREPEAT or times < high):
        newest = _ends(inner, text, newest) - found
        found |= newest
        times += 1
    return found


def _fits(name: str, value: Any, here: str) -> bool:
    """Return whether one of the characters `here` is what is wanted; of what must not be there, whether none is."""
    if name == "ANY":
        return here != "\n"
    if name == "LITERAL":
        return any(ord(character) == value for character in here)
    if name == "NOT_LITERAL":
        return all(ord(character) != value for character in here)
    if name == "RANGE":
        return any(value[0] <= ord(character) <= value[1] for character in here)
    if name == "CATEGORY":
        kind = str(value).removeprefix("CATEGORY_")
        return _CATEGORIES[kind.removeprefix("NOT_")](here[0]) != kind.startswith("NOT_")
    negated = str(value[0][0]) == "NEGATE"
    return any(_fits(str(op), inner, here) for op, inner in value[negated:]) != negated
