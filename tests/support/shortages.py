"""What a machine that has too little of something answers."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptors(but: int = 0) -> Iterator[None]:
    """Let this process open nothing more, but for so many at a time."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(but)]
    limit = max(spare) + 1 if spare else 0
    filled = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        while spare and len(filled) < limit:
            try:
                filled.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for descriptor in spare:
            os.close(descriptor)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in filled:
            os.close(descriptor)
