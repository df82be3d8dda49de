"""Who counts as this machine for what changes it."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from mesos_gpu.agent.api.here import is_from_here


@pytest.mark.parametrize(
    ("peer", "own", "here"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.6", "10.0.0.5", False),
        ("fe80::1", "10.0.0.5", False),
    ],
)
def test_it_is_who_comes_over_the_loopback_or_from_the_very_address_that_was_asked(
    peer: str, own: str, here: bool
) -> None:
    transport = Mock()
    transport.get_extra_info.side_effect = lambda name, default=None: {"sockname": (own, 5051)}.get(name, default)
    request = make_mocked_request("POST", "/gpus/suspend", transport=transport).clone(remote=peer)
    assert is_from_here(request) is here


@pytest.mark.parametrize("socket", [True, False])
def test_of_a_domain_socket_the_caller_decides(socket: bool) -> None:
    request = make_mocked_request("POST", "/gpus/suspend").clone(remote="")
    assert is_from_here(request, socket=socket) is socket
