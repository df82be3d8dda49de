"""Units that Mesos counts in: its scalars `mem` and `disk` are mebibytes."""

from __future__ import annotations

MIB = 1 << 20
"""A mebibyte, in bytes."""
