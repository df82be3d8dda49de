from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Volume, check_config, read_status
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput

GOOD = ContainerConfig("c-1", Path("/tmp/sandbox"), ("true",), {"PATH": "/bin"}, None, 100, 1 << 20, 0)


def test_an_ordinary_container_is_accepted() -> None:
    check_config(GOOD)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": ImageAsk("a", Command(value="\0"))}, "NUL"),
        ({"volumes": (Volume("", "/a"),)}, "both paths"),
        ({"volumes": (Volume("a", "b"),)}, "must be absolute"),
        ({"volumes": (Volume("/a", "/b/../.."),)}, "not allowed in paths"),
        ({"volumes": (Volume("../a", "/b"),)}, "not allowed in paths"),
        ({"volumes": (Volume("/a", "/proc/sys"),)}, "the container's own"),
        ({"volumes": (Volume("/a", "/dev"),)}, "the container's own"),
        ({"volumes": (Volume("/a", "."),)}, "the sandbox itself"),
        ({"container_id": "../etc"}, "letters, digits"),
        ({"container_id": ""}, "letters, digits"),
        ({"container_id": ".hidden"}, "letters, digits"),
        ({"argv": ()}, "no command"),
        ({"sandbox": Path("relative")}, "not an absolute path"),
        ({"gpus": -1}, "negative"),
        ({"argv": ("a\0b",)}, "NUL"),
        ({"environment": {"A": "\0"}}, "NUL"),
        ({"environment": {"A=B": "c"}}, "name of an environment variable"),
        ({"environment": {"": "c"}}, "name of an environment variable"),
    ],
)
def test_what_cannot_be_a_container_is_refused_in_words(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_config(msgspec.structs.replace(GOOD, **change))


@pytest.mark.parametrize("status", [0, 1, 42, 127, 128, 255])
def test_an_exit_status_is_an_exit_code(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (status, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_status_above_128_is_a_signal(number: int) -> None:
    assert (read_status(128 + number).exit_code, read_status(128 + number).signal) == (None, number)


@pytest.mark.parametrize("status", [-1, 256])
def test_a_status_that_no_process_has_is_an_unknown_end(status: int) -> None:
    assert (read_status(status).exit_code, read_status(status).signal) == (None, None)
