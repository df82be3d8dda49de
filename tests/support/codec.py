"""Whether the compiled codec of messages is there, and why not."""

from __future__ import annotations

import os

import pytest

from mesos_gpu.native import TABLE, switched_off
from tools.make_codec import lacking


def in_use() -> str:
    """Return which codec programs have here, and why if it is not the compiled one."""
    if TABLE is not None:
        return "compiled"
    pure = "MESOS_GPU_PURE_PYTHON is set" if switched_off() else None
    return f"Python alone ({pure or lacking() or 'tools/make_codec.py compiles one'})"


def needed() -> None:
    """Skip a test where there is no codec. On a build server that has what it takes to build it, fail."""
    if TABLE is not None:
        return
    if os.environ.get("CI") and lacking() is None:
        pytest.fail("the compiled codec can be built here, and is not: see what tools/make_codec.py says")
    pytest.skip(f"the codec of messages is {in_use()}")
