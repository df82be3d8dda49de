"""What `status` makes of the services' answers."""

from __future__ import annotations

import pytest

from mesos_gpu.local.commands import gpus_of


@pytest.mark.parametrize(("held", "reserved", "free"), [(0, 0, 2), (1, 0, 1), (1, 1, 0), (2, 1, 0)])
def test_no_fewer_than_no_gpus_are_free(held: int, reserved: int, free: int) -> None:
    """A task may hold a GPU that has vanished, and that the agent no longer counts: 3 of 2."""
    document = {
        "resources": {"gpus": 2.0},
        "unreserved_resources_allocated": {"gpus": float(held)},
        "reserved_resources_allocated": {"ml": {"gpus": float(reserved)}},
    }
    assert gpus_of(document) == (2, free)
