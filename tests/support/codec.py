"""Whether the compiled codec of messages is there, and why not."""

from __future__ import annotations

import os

import pytest

from mesos_gpu.native import TABLE
from tools.make_codec import lacking


def needed() -> None:
    """Skip a test where there is no codec. On a build server that has what it takes to build it, fail."""
    if TABLE is not None:
        return
    why = lacking()
    if os.environ.get("CI") and why is None:
        pytest.fail("the compiled codec can be built here, and is not: see what tools/make_codec.py says")
    pytest.skip(f"the compiled codec is not built: {why or './run builds it'}")
