"""The regular expressions that users write, in constraints of apps, pods, jobs and volumes: LIKE and UNLIKE.

Marathon gives them to Java, which backtracks: one expression can keep it busy for years. Here each is matched in
bounded time (mesos_gpu/mesos/regex.py), and what cannot be is refused with the definition
(docs/reference/differences.md).
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from mesos_gpu.mesos.regex import Pattern

PATTERN_ADVICE = (
    "use what can be matched in bounded time: no look-around, no back references, no flags but (?i) at the start; "
    "1000 characters at most"
)

_IGNORE_CASE = "(?i)"
_PROPERTY = re.compile(r"\\[pP](\{\w+\}|\w)")
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")
_POSSESSIVE = re.compile(r"([*+?}])\+")


def pattern_problem(text: str) -> str | None:
    """Return what is wrong with an expression; None for a good one. Java's properties (`\\p{L}`) are let through."""
    try:
        _compiled(_PROPERTY.sub(".", text))
    except ValueError as error:
        return str(error)
    return None


@lru_cache(maxsize=16_384)
def like(pattern: str, text: str) -> bool:
    """Return whether all of `text` matches. An expression that only Java understands matches nothing.

    Remembered, because the same few attributes of agents are asked about with every offer.
    """
    try:
        return _compiled(pattern).fullmatch(text)
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Pattern:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Java's nested sets
        plain = text.removeprefix(_IGNORE_CASE)
        return Pattern(_POSSESSIVE.sub(r"\1", _NAMED_GROUP.sub("(?P<", plain)), ignore_case=plain != text)
