"""Secrets by value are for the container that they are sent to: whatever shows a task leaves them out."""

from __future__ import annotations

from typing import Any


def without_secrets(document: Any) -> Any:
    """Return a document in which each Secret is without its `value`; the document itself when it has none."""
    if isinstance(document, list):
        kept = [without_secrets(item) for item in document]
        return document if all(new is old for new, old in zip(kept, document, strict=True)) else kept
    if not isinstance(document, dict):
        return document
    shown = {name: without_secrets(value) for name, value in document.items()}
    secret = shown.get("secret")
    if isinstance(secret, dict) and "value" in secret:
        shown["secret"] = {name: value for name, value in secret.items() if name != "value"}
    return document if all(shown[name] is document[name] for name in shown) else shown
