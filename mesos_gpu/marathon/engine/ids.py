"""Where ids come from. What decides is given them, and makes none of its own."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from itertools import count


def new_id() -> str:
    """Return a random UUID as text."""
    return str(uuid.uuid4())


def ids_from(seed: str | Callable[[], str]) -> Callable[[], str]:
    """Return what makes UUIDs as text, each another; the same seed (a UUID) gives the same ones in the same order.

    What makes a seed is asked for it when the first of them is made: most events need none.
    """
    space: bytes | None = None
    numbers = count(1)

    def another() -> str:
        # As uuid.uuid5 makes them, in a third of its time.
        nonlocal space
        if space is None:
            space = uuid.UUID(seed if isinstance(seed, str) else seed()).bytes
        made = bytearray(hashlib.sha1(space + b"%d" % next(numbers), usedforsecurity=False).digest()[:16])
        made[6] = made[6] & 0x0F | 0x50
        made[8] = made[8] & 0x3F | 0x80
        text = made.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    return another
