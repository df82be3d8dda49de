"""What a ContainerInfo says of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_terminal(container: Mapping[str, Any]) -> tuple[bool, tuple[int, int] | None]:
    """Return whether it asks for one, as an empty `tty_info` does, and its (rows, columns) where it says."""
    terminal = container.get("tty_info")
    window = (terminal or {}).get("window_size")
    return terminal is not None, None if window is None else (int(window["rows"]), int(window["columns"]))
