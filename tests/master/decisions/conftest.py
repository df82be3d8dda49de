"""A master with an agent and a framework that reserves."""

from __future__ import annotations

import pytest

from tests.support.master.operations import World


@pytest.fixture
def world() -> World:
    return World()
