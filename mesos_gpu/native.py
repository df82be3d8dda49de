"""The compiled codec of messages, where it is installed: the distribution mesos-gpu-codec, of the folder native/.

Nothing needs it. `MESOS_GPU_PURE_PYTHON=1` in a program's environment does without it, for who looks for a fault.
"""

from __future__ import annotations

import os
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[int, str, str, bool, bool, Any]
"""A field: number, name in documents, kind, whether of many, whether required; a Table or an enum's numbers by name."""
_PROTOCOL = 2
"""What a codec built for this version says; another may be left from before an upgrade."""


class Table(Protocol):
    """What is known of a message type, in C; empty at first. What it cannot do it leaves to Python, by None."""

    def fill(self, rows: list[Row], /) -> None:
        """Say which fields there are, in the order of their numbers. Raises ValueError for what is no such list."""

    def decode(self, data: bytes, /) -> dict[str, Any] | Table | None:
        """Return the document of bytes, or a table that has to be filled first, or None."""

    def encode(self, document: object, /) -> bytes | Table | None:
        """Return the bytes of a document, or a table that has to be filled first, or None."""


def switched_off() -> bool:
    """Return whether this program's environment does without it."""
    return os.environ.get("MESOS_GPU_PURE_PYTHON", "") not in ("", "0")


def _table_class() -> type[Any] | None:
    if switched_off():
        return None
    try:
        import mesos_gpu_codec
    except ImportError:  # not installed, or built for another kind of Python
        return None
    found: type[Any] = mesos_gpu_codec.Table
    return found if mesos_gpu_codec.PROTOCOL == _PROTOCOL else None


TABLE = _table_class()
"""The class of tables; None where there is no codec."""
