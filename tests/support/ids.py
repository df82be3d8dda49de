"""Numbers for the users of containers (`--userns_remap`) that are one process of tests' own: agents claim theirs."""

from __future__ import annotations

import os

EACH = 65536
PLACES = 32
"""As many ranges there are from each number of `first_of_ours` on."""


def first_of_ours() -> int:
    """Return the first of PLACES * EACH numbers; those of processes that were started one after another differ."""
    return 1_879_048_192 + os.getpid() % 1000 * PLACES * EACH
