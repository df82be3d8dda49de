"""Ports that a service has again after a restart, whatever others are lent meanwhile."""

from __future__ import annotations

import socket

from mesos_gpu.local.forking.ports import KEPT, candidates, is_free, lent, port_for
from mesos_gpu.local.plan import LOOPBACK


def listening(port: int = 0) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def test_the_kernel_lends_nobody_the_port_of_a_service() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getsockname()[1] in lent()
    assert port_for(0) in KEPT
    assert port_for(0) not in lent()


def test_a_service_has_the_port_that_it_had_unless_somebody_else_has_it() -> None:
    last = port_for(0)
    assert port_for(last) == last
    assert port_for(last, {last}) != last, "another service of the box is about to listen there"
    with listening(last):
        assert not is_free(last)
        other = port_for(last)
        assert other != last
        assert is_free(other)
    assert port_for(last) == last


def test_a_port_is_free_whose_last_connection_has_just_ended() -> None:
    with listening(port_for(0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()  # who closes first waits for a minute: TIME_WAIT
        client.close()
    assert is_free(port)


def test_ports_that_are_lent_are_none_of_ours() -> None:
    assert candidates(range(20, 30), range(25, 60), {22}) == [20, 21, 23, 24]
    assert candidates(range(20, 30), range(1, 65536)) == []
