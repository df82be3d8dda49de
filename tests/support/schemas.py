"""The parts of a JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)
