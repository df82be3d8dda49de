"""Messages are read and written by compiled code where that is built, and by Python elsewhere: both are tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesos_gpu.mesos.codec import compiled
from tests.support import codec


@pytest.fixture(scope="module")
def compiled_codec() -> None:
    """The compiled codec, in use."""
    codec.needed()


@pytest.fixture(scope="module", params=["compiled", "python"])
def each_codec(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each of the two in turn."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            codec.needed()
        else:
            patch.setattr(compiled, "TABLE", None)
        yield
