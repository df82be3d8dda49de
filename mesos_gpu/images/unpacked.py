"""What an agent and its workers say to each other of a layer: what it may take, what it took, and what it hides.

What unpacks (`layers`, and the libraries that it needs) is read by workers alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # each worker's start would wait for it

OPAQUE_ATTRIBUTE = "trusted.overlay.opaque"


@dataclass(frozen=True, slots=True)
class LayerLimits:
    """What one layer may take: bytes unpacked, files, and bytes that must stay free on the disk."""

    max_bytes: int = 64 << 30
    max_entries: int = 2_000_000
    reserve_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a layer took: bytes of its files, and their number."""

    bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Job:
    """One layer to unpack."""

    blob: str
    into: str
    diff_id: str
    limits: LayerLimits


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a job: one of the two."""

    extracted: Extracted | None = None
    error: str | None = None


def is_opaque(folder: Path) -> bool:
    """Say whether a layer hides all layers below it, which overlayfs does not do for the root folder by itself."""
    try:
        return os.getxattr(folder, OPAQUE_ATTRIBUTE, follow_symlinks=False) == b"y"
    except OSError:
        return False
