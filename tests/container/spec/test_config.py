from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Volume, check_config, read_status
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

GOOD = ContainerConfig("c-1", Path("/tmp/sandbox"), ("true",), {"PATH": "/bin"}, None, 100, 1 << 20, 0)


def test_an_ordinary_container_is_accepted() -> None:
    check_config(GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"image": ImageAsk("a", Command(value="\0"))},
        {"volumes": (Volume("", "/a"),)},
        {"volumes": (Volume("a", "b"),)},
        {"volumes": (Volume("/a", "/b/../.."),)},
        {"volumes": (Volume("../a", "/b"),)},
        {"volumes": (Volume("/a", "/proc/sys"),)},
        {"volumes": (Volume("/a", "/dev"),)},
        {"volumes": (Volume("/a", "."),)},
        {"container_id": "../etc"},
        {"container_id": ""},
        {"container_id": ".hidden"},
        {"argv": ()},
        {"sandbox": Path("relative")},
        {"gpus": -1},
        {"argv": ("a\0b",)},
        {"environment": {"A": "\0"}},
        {"environment": {"A=B": "c"}},
        {"environment": {"": "c"}},
    ],
)
def test_what_cannot_be_a_container_is_refused_in_words(change: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        check_config(msgspec.structs.replace(GOOD, **change))
    assert str(refused.value) == golden


@pytest.mark.parametrize("status", [0, 1, 42, 127, 128, 255])
def test_an_exit_status_is_an_exit_code(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (status, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_status_above_128_is_a_signal(number: int) -> None:
    assert (read_status(128 + number).exit_code, read_status(128 + number).signal) == (None, number)


@pytest.mark.parametrize("status", [-1, 256])
def test_a_status_that_no_process_has_is_an_unknown_end(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (None, None)
