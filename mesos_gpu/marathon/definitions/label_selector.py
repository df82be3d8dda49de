"""Marathon's label selectors: `key`, `key==v`, `key!=v`, `key in (a,b)`, `key notin (a,b)`; a comma means and."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mesos_gpu.errors import InvalidApp, Problem

# Letters, digits and . - _ ; anything else after a backslash.
_WORD = r"(?:[A-Za-z0-9.\-_]|\\.)+"
_TERM = re.compile(
    rf"\s*(?P<key>{_WORD})(?:\s*(?P<operator>==|!=)\s*(?P<value>{_WORD})"
    rf"|\s*(?P<set>in|notin)\s*\(\s*(?P<values>{_WORD}(?:\s*,\s*{_WORD})*)\s*\))?\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class _Term:
    key: str
    values: frozenset[str] | None
    wanted: bool


def parse_selector(text: str) -> tuple[_Term, ...]:
    """Return the terms of a selector. Raises InvalidApp (422) when it is not one."""
    terms, at = [], 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            sentence = f"Label selector '{text}' is not valid from {text[at:]!r} on"
            raise InvalidApp([Problem("/label", sentence, sentence)])
        values = None
        if match["value"] is not None:
            values = frozenset({_plain(match["value"])})
        elif match["values"] is not None:
            values = frozenset(_plain(value) for value in re.findall(_WORD, match["values"]))
        wanted = match["operator"] != "!=" and match["set"] != "notin"
        terms.append(_Term(_plain(match["key"]), values, wanted))
        at = match.end()
    return tuple(terms)


def selects(terms: tuple[_Term, ...], labels: Mapping[str, str]) -> bool:
    """Return whether labels fulfil every term. A label that is missing never does, `!=` and `notin` included."""
    return all(
        term.key in labels and (term.values is None or (labels[term.key] in term.values) == term.wanted)
        for term in terms
    )


def _plain(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word)
