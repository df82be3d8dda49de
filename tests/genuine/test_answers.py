"""What answers a message of libprocess: a genuine master and ours say the same, whoever sends it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.genuine.master import GenuineMaster
from tests.genuine.releases import Release
from tests.support.master.live import live_master

AGENT, FROM = b"User-Agent: libprocess/slave(1)@127.0.0.1:1\r\n", b"Libprocess-From: slave(1)@127.0.0.1:1\r\n"
SENDERS = {"an agent": AGENT + FROM, "libprocess of before": AGENT, "somebody else": b"User-Agent: curl\r\n" + FROM}
WANTED = {
    (name, process): f"HTTP/1.1 {status}".encode()
    for name in SENDERS
    for process, status in (("master", "202 Accepted"), ("nobody", "404 Not Found"))
}


def answer(port: int, process: str, sender: bytes) -> bytes:
    head = b"POST /%s/mesos.internal.PingSlaveMessage HTTP/1.1\r\n%sHost: x\r\nContent-Length: 3\r\n\r\nabc"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head % (process.encode(), sender))
        return connection.recv(4096).split(b"\r\n")[0]


def answers(port: int) -> dict[tuple[str, str], bytes]:
    return {(name, process): answer(port, process, SENDERS[name]) for name, process in WANTED}


@pytest.mark.root
def test_a_genuine_master_answers_each_message(release: Release, tmp_path: Path) -> None:
    master = GenuineMaster(release, tmp_path / "master").start()
    try:
        assert answers(master.port) == WANTED
    finally:
        master.kill()


async def test_ours_answers_as_a_genuine_one(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master:
        assert await asyncio.to_thread(answers, master.endpoint.pid("master").port) == WANTED
