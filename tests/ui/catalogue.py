"""The texts of the page by their keys, so that its tests name keys and survive rewording."""

from __future__ import annotations

import json
import re
from pathlib import Path

STATIC = Path(__file__).parents[2] / "mesos_gpu" / "ui" / "static"


def _catalogue(language: str) -> dict[str, str]:
    text = (STATIC / "words" / f"{language}.js").read_text()
    found = re.findall(r'^  (?:"([^"]+)"|(\w+)): ("(?:[^"\\]|\\.)*"),$', text, re.MULTILINE)
    assert len(found) == text.count("\n") - 4, "one text per line"
    return {quoted or bare: json.loads(value) for quoted, bare, value in found}


EN, ZH = _catalogue("en"), _catalogue("zh")


def text(key: str, catalogue: dict[str, str] = EN, **values: object) -> str:
    """Return a text with its values, as words.js does: `{count|one instance|# instances}` depends on the number."""

    def value(found: re.Match[str]) -> str:
        name, one, many = found.groups()
        if one is None:
            return str(values[name])
        return one if values[name] == 1 else many.replace("#", str(values[name]))

    return re.sub(r"\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}", value, catalogue[key])
