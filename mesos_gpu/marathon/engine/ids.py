"""Where ids come from. What decides is given them, and makes none of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count


def new_id() -> str:
    """Return a random UUID as text."""
    return str(uuid.uuid4())


def ids_from(seed: str) -> Callable[[], str]:
    """Return what makes UUIDs as text, each another; the same seed (a UUID) gives the same ones in the same order."""
    space, numbers = uuid.UUID(seed), count(1)
    return lambda: str(uuid.uuid5(space, str(next(numbers))))
