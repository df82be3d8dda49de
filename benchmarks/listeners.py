"""Who listens while `./run bench scale` runs: many of Marathon's /v2/events, many of the master's SUBSCRIBE.

A process of its own. Some never read. At the end of its input it prints one line of JSON: how many were cut off, bytes
and events that the others had, and how late they were (an event's time against the clock, in ms).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
from datetime import datetime
from urllib.parse import urlsplit

SUBSCRIBE = b'{"type": "SUBSCRIBE"}'
GET = b"GET /v2/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
POST = b"POST /api/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(SUBSCRIBE),
    SUBSCRIBE,
)
MARKS = {"Marathon": b'"timestamp":"', "master": b'"timestamp":'}
"""What comes before the time of an event; of the master's, of a status."""


class Listeners:
    """Those of one server."""

    def __init__(self, name: str, url: str, ask: bytes) -> None:
        self.name, self._ask, self._url = name, ask, urlsplit(url)
        self.bytes = self.events = self.cut_off = 0
        self.late_ms: list[float] = []
        self._sleepers: list[asyncio.StreamReader] = []
        self._reading: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        """Kept: a stream whose writer nobody has closes."""

    async def start(self, count: int, slow: int) -> None:
        for number in range(count):
            reader, writer = await self._connected(deaf=number < slow)
            self._writers.append(writer)
            writer.write(self._ask)
            await reader.readuntil(b"\r\n\r\n")
            if number < slow:
                self._sleepers.append(reader)
            else:
                self._reading.append(asyncio.ensure_future(self._read(reader, looks=number == slow)))

    async def _connected(self, *, deaf: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket()
        connection.setblocking(False)
        if deaf:  # the kernel takes little for one that never reads, so that what it is behind lies with the server
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        await asyncio.get_running_loop().sock_connect(connection, (self._url.hostname, self._url.port))
        return await asyncio.open_connection(sock=connection, limit=65536)

    async def _read(self, reader: asyncio.StreamReader, *, looks: bool) -> None:
        """Read to the end; one that looks also notes how late events are, one of each piece that came."""
        mark = MARKS[self.name]
        while data := await reader.read(1 << 20):
            self.bytes += len(data)
            if looks:
                self.events += data.count(mark)
                at = data.rfind(mark)
                if at >= 0 and at + len(mark) + 24 <= len(data):
                    self._note(data[at + len(mark) : at + len(mark) + 24])
        self.cut_off += 1

    def _note(self, text: bytes) -> None:
        if self.name == "Marathon":
            then_s = datetime.fromisoformat(text.decode().replace("Z", "+00:00")).timestamp()
        else:
            then_s = float(text.partition(b",")[0].partition(b"}")[0])
        self.late_ms.append((time.time() - then_s) * 1e3)

    async def told(self) -> dict[str, float]:
        """Return what came of it."""
        awake_cut_off, asleep_cut_off = self.cut_off, 0
        for reader in self._sleepers:
            asleep_cut_off += await _is_cut_off(reader)
        for task in self._reading:
            task.cancel()
        for writer in self._writers:
            writer.close()
        late = sorted(self.late_ms) or [float("nan")]
        return {
            "awake_cut_off": awake_cut_off,
            "asleep_cut_off": asleep_cut_off,
            "asleep": len(self._sleepers),
            "events": self.events,
            "megabytes": self.bytes / 1e6,
            "late_median_ms": late[len(late) // 2],
            "late_p99_ms": late[int(0.99 * (len(late) - 1))],
        }


async def _is_cut_off(reader: asyncio.StreamReader) -> bool:
    """Read what had arrived; return whether the connection ended behind it."""
    try:
        while await asyncio.wait_for(reader.read(1 << 20), 2):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


async def run(asked: argparse.Namespace) -> None:
    both = [Listeners("Marathon", asked.marathon, GET), Listeners("master", asked.master, POST)]
    for each in both:
        await each.start(asked.count, asked.slow)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(json.dumps({each.name: await each.told() for each in both}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--marathon", required=True)
    parser.add_argument("--master", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--slow", type=int, default=10)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
