"""Secrets by value are for the container that they are sent to: whatever shows a task leaves them out."""

from __future__ import annotations

from operator import is_
from typing import Any


def without_secrets(document: Any) -> Any:
    """Return a document in which each Secret is without its `value`; the document itself when it has none."""
    if isinstance(document, list):
        kept = [without_secrets(item) if isinstance(item, (dict, list)) else item for item in document]
        return document if all(map(is_, kept, document)) else kept
    if not isinstance(document, dict):
        return document
    # Most have none, and nothing is made for them.
    changed = {}
    for name, value in document.items():
        if isinstance(value, (dict, list)):
            shown = without_secrets(value)
            if name == "secret" and isinstance(shown, dict) and "value" in shown:
                shown = {inner: one for inner, one in shown.items() if inner != "value"}
            if shown is not value:
                changed[name] = shown
    return {**document, **changed} if changed else document
