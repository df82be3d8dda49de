"""Characters that look like a space and are none: copied from a web page, they make keys and values strange. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES = {
    "\u00a0": "a non-breaking space (U+00A0)",
    "\u2007": "a figure space (U+2007)",
    "\u202f": "a narrow non-breaking space (U+202F)",
    "\u3000": "an ideographic space (U+3000)",
    "\u200b": "a zero-width space (U+200B)",
    "\u2060": "a word joiner (U+2060)",
    "\ufeff": "a byte order mark (U+FEFF)",
}
_ANY = "".join(NAMES)
_STRUCTURAL = re.compile(rf"^[ \t]*(?:-[ \t]+)*-?([{_ANY}])|:([{_ANY}])|([{_ANY}])[ \t{_ANY}]*:", re.MULTILINE)


def sentence(char: str) -> str:
    """Return what is to be said of such a character."""
    return f"{NAMES[char]} stands here, as copied text has it: it looks like a space and is none; type a space instead"


def structural(text: str) -> int | None:
    """Return where such a character first stands in place of the spaces that YAML is made of; None when it does not."""
    found = _STRUCTURAL.search(text)
    return None if found is None else next(found.start(n) for n in (1, 2, 3) if found[n] is not None)


def strange_key(value: object) -> str | None:
    """Return the first key of a document, at any depth, that begins or ends with such a character."""
    return next(_strange_keys(value), None)


def _strange_keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str) and key.strip(_ANY) != key:
                yield key
            yield from _strange_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strange_keys(inner)


def place_in(text: str, key: str) -> int:
    """Return where the strange character of a key stands in the text that has it."""
    at = max(0, text.find(key))
    return at if key[0] in NAMES else at + len(key) - 1
