"""Whose program is at the other end: told by the kernel, for TCP and for sockets with a path."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesos_gpu.base.linux.peers import uid_of_peer
from mesos_gpu.mesos.libprocess import Message, Pid, encode
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from mesos_gpu.process.peers import is_same_user
from tests.support.folders import open_folder

NOBODY = 65534
# Connects as another user, writes what it is given, and stays until its input ends, or leaves at once.
STRANGER = """
import os, socket, sys
uid, family, where, stays = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "stays"
if uid != os.geteuid():
    os.setuid(uid)
one = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET)
one.connect(("::1" if family == "6" else "127.0.0.1", int(where)))
one.sendall(sys.stdin.buffer.read())
if not stays:
    one.close()
print("sent", flush=True)
if stays:
    one.settimeout(30)
    one.recv(1)
"""
Stranger = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    started: list[subprocess.Popen[bytes]] = []

    def start(
        uid: int, port: int, data: bytes = b"x", *, family: int = 4, stays: bool = True
    ) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", STRANGER, str(uid), str(family), str(port), "stays" if stays else "leaves"]
        one = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(one)
        assert one.stdin is not None
        one.stdin.write(data)
        one.stdin.close()
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


@pytest.mark.root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::"])
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_the_kernel_knows_whose_a_connection_is(stranger: Stranger, address: str, uid: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::") as listening:
        listening.settimeout(30)
        stranger(uid, listening.getsockname()[1], family=6 if address == "::1" else 4)
        accepted, _ = listening.accept()
        with accepted:
            accepted.recv(1)
            assert uid_of_peer(accepted) == uid
            assert is_same_user(accepted) is (uid in (0, os.geteuid()))


@pytest.mark.root
def test_who_has_hung_up_already_is_nobody_not_root(stranger: Stranger) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = stranger(NOBODY, listening.getsockname()[1], stays=False)
        assert one.stdout is not None
        assert one.stdout.readline() == b"sent\n"
        one.wait()
        accepted, _ = listening.accept()
        with accepted:
            assert uid_of_peer(accepted) is None
            assert not is_same_user(accepted)


def test_a_socket_with_a_path_says_it_itself(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert uid_of_peer(one) == os.geteuid()
        assert is_same_user(other)


def test_of_other_machines_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("  sl  local_address rem_address   st tx_queue rx_queue\n")
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as one:
        assert uid_of_peer(one, tmp_path) is None


@pytest.mark.root
@pytest.mark.parametrize(("uid", "taken"), [(0, True), (NOBODY, False)])
async def test_messages_of_other_users_are_not_taken(stranger: Stranger, uid: int, taken: bool) -> None:
    endpoint = Endpoint("127.0.0.1", 0, same_user_peers=True)
    got: list[Message] = []
    await endpoint.start(make_app())
    try:
        endpoint.spawn("slave(1)", got.append)
        forged = Pid("master", "127.0.0.1", 5050)
        one = stranger(uid, endpoint.port, encode(forged, endpoint.pid("slave(1)"), "RunTaskMessage", b"evil"))
        # A refused connection ends; an accepted one is answered with a byte.
        assert await asyncio.to_thread(one.wait) == 0
        assert [message.name for message in got] == (["RunTaskMessage"] if taken else [])
    finally:
        await endpoint.stop()


@pytest.mark.root
async def test_without_the_flag_they_are_as_in_mesos(stranger: Stranger) -> None:
    endpoint = Endpoint("127.0.0.1", 0)
    got: list[Message] = []
    await endpoint.start(make_app())
    try:
        endpoint.spawn("slave(1)", got.append)
        forged = Pid("master", "127.0.0.1", 5050)
        one = stranger(NOBODY, endpoint.port, encode(forged, endpoint.pid("slave(1)"), "PingSlaveMessage", b""))
        assert await asyncio.to_thread(one.wait) == 0
        assert [message.name for message in got] == ["PingSlaveMessage"]
    finally:
        await endpoint.stop()


SENDER = """
import os, socket, sys
os.setresuid(*[int(sys.argv[1])] * 3)
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(60)
    connection.connect(sys.argv[2])
    connection.sendall(sys.stdin.buffer.read())
    connection.recv(1)
"""


@pytest.mark.root
@pytest.mark.parametrize(("uid", "taken"), [(0, True), (NOBODY, False)])
async def test_a_socket_file_takes_messages_of_root_and_its_own_user_alone(uid: int, taken: bool) -> None:
    endpoint = Endpoint("127.0.0.1", 0)
    got: list[Message] = []
    with open_folder() as folder:
        await endpoint.start(make_app(), folder / "agent.sock")
        try:
            endpoint.spawn("slave(1)", got.append)
            message = encode(Pid("master", "127.0.0.1", 5050), endpoint.pid("slave(1)"), "RunTaskMessage", b"evil")
            words = [sys.executable, "-c", SENDER, str(uid), str(folder / "agent.sock")]
            done = await asyncio.to_thread(subprocess.run, words, input=message, check=False)
            assert done.returncode == 0
            assert [each.name for each in got] == (["RunTaskMessage"] if taken else [])
        finally:
            await endpoint.stop()
