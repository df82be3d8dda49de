"""How much of what a container says is kept. Pure."""

from __future__ import annotations

from msgspec import Struct


class Kept(Struct, frozen=True):
    """One stream: its file never has more than `max_bytes`; of older ones `rotate` are kept, as NAME.1, NAME.2 and on.

    With `compress` those are gzip files, NAME.1.gz and on; but for the youngest with `delay_compress`.
    """

    max_bytes: int
    rotate: int = 0
    compress: bool = False
    delay_compress: bool = False


class OutputLimits(Struct, frozen=True):
    """What is kept of a container's standard output and error."""

    stdout: Kept
    stderr: Kept
