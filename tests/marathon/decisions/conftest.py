"""A scheduler that a master has taken in."""

from __future__ import annotations

import pytest

from tests.support.marathon.builders import Run


@pytest.fixture
def run() -> Run:
    started = Run()
    started.subscribe()
    return started
