"""What one client can do to all others: bodies that grow, heads without an end, and every connection there is."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import resource
import socket
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.process import bodies, connections, files, front
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.files import NOT_UTF8, SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.http import json_response, read_json
from mesos_gpu.process.requests import read_call
from tests.support.frame import frame_app
from tests.support.golden import Golden

MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
CALL = b'{"type": "GET_HEALTH"}'
SANDBOX = "/sandbox"


async def _call(request: web.Request) -> web.StreamResponse:
    return json_response(await read_call(request, "mesos.v1.agent.Call"))


async def _json(request: web.Request) -> web.StreamResponse:
    return json_response(await read_json(request))


Start = Callable[..., Awaitable[Endpoint]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts an endpoint whose sandbox is tmp_path."""
    started: list[Endpoint] = []

    async def start_one(most_connections: int | None = None) -> Endpoint:
        shown = SandboxFiles(lambda path: (SANDBOX, str(tmp_path)) if path.startswith(SANDBOX) else None)
        endpoint = Endpoint("127.0.0.1", 0, most_connections=most_connections)
        app = frame_app(called={"call": _call, "json": _json}, files=FilesApi(shown, dict))
        await endpoint.start(app)
        started.append(endpoint)
        return endpoint

    yield start_one
    for endpoint in started:
        await endpoint.stop()


@pytest.fixture
async def endpoint(start: Start) -> Endpoint:
    return await start()


async def post(endpoint: Endpoint, body: bytes, headers: dict[str, str], path: str = "/call") -> tuple[int, str]:
    url = f"{endpoint.url}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=io.BytesIO(body), headers=headers) as answer:
        return answer.status, await answer.text()


async def get(endpoint: Endpoint, endpoint_path: str, /, **query: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{endpoint.url}{endpoint_path}", params=query) as answer,
    ):
        return answer.status, await answer.text()


def bomb(size: int) -> bytes:
    """`size` zeros in gzip, a thousandth of that."""
    packer, parts = zlib.compressobj(9, zlib.DEFLATED, 31), []
    parts += [packer.compress(bytes(16 * MIB)) for _ in range(size // (16 * MIB))]
    return b"".join([*parts, packer.flush()])


# Bodies.


async def test_a_compressed_call_is_read(endpoint: Endpoint) -> None:
    for encoding, body in (("gzip", gzip.compress(CALL)), ("deflate", zlib.compress(CALL)), ("identity", CALL)):
        status, text = await post(endpoint, body, {**JSON, "Content-Encoding": encoding})
        assert (status, json.loads(text)) == (200, {"type": "GET_HEALTH"})
    two_members = gzip.compress(CALL[:5]) + gzip.compress(CALL[5:])
    assert (await post(endpoint, two_members, GZIP))[0] == 200


@pytest.mark.parametrize("body", [b"nonsense", gzip.compress(CALL)[:-9], gzip.compress(CALL) + b"junk"])
async def test_a_body_that_is_not_what_its_encoding_says_is_the_clients_fault(endpoint: Endpoint, body: bytes) -> None:
    assert (await post(endpoint, body, GZIP))[0] == 400
    assert (await post(endpoint, CALL, JSON))[0] == 200


async def test_an_encoding_that_nobody_knows_is_refused_in_words(endpoint: Endpoint, golden: Golden) -> None:
    status, words = await post(endpoint, CALL, {**JSON, "Content-Encoding": "br"})
    assert status == 415
    assert words == golden


@pytest.mark.slow
async def test_a_body_that_grows_beyond_the_limit_is_given_up_at_the_limit(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[int] = []
    inflated = bodies.inflated

    def watched(body: bytes, window_bits: int, limit: int) -> bytes | None:
        found = inflated(body, window_bits, limit)
        grown.append(limit)
        return found

    monkeypatch.setattr(bodies, "inflated", watched)
    body = bomb(1024 * MIB)
    assert len(body) < 2 * MIB
    waits = asyncio.ensure_future(post(endpoint, body, GZIP))
    longest = await longest_turn(waits)
    assert (await waits)[0] == 413
    assert grown == [64 * MIB]
    assert longest < 1.0, "everybody else waited"


async def longest_turn(work: asyncio.Future[object]) -> float:
    """How long the loop was kept, at most, while `work` was done."""
    longest, last = 0.0, time.perf_counter()
    while not work.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/call", "/json"])
async def test_json_of_millions_of_values_is_refused(endpoint: Endpoint, path: str) -> None:
    body = json.dumps({f"k{n}": n for n in range(bodies.MAX_VALUES // 2 + 2)}).encode()
    status, words = await post(endpoint, body, JSON, path)
    assert status == 400
    assert str(bodies.MAX_VALUES) in words


async def test_a_large_call_is_read_beside_everything_else(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [{"key": f"k{n}", "value": "v"} for n in range(20_000)]
    call = {
        "type": "LAUNCH_CONTAINER",
        "launch_container": {
            "container_id": {"value": "c"},
            "command": {"value": "x"},
            "container": {"type": "MESOS", "mesos": {}, "network_infos": [{"labels": {"labels": labels}}]},
        },
    }
    loop, threads = asyncio.get_running_loop(), []
    monkeypatch.setattr(asyncio, "to_thread", lambda *args: threads.append(args) or loop.run_in_executor(None, *args))
    status, text = await post(endpoint, json.dumps(call).encode(), JSON)
    assert (status, json.loads(text)) == (200, call)
    assert len(threads) == 1
    assert (await post(endpoint, CALL, JSON))[0] == 200
    assert len(threads) == 1


@pytest.mark.parametrize("path", ["/call", "/json"])
async def test_a_number_of_a_million_digits_is_no_json(endpoint: Endpoint, path: str) -> None:
    assert (await post(endpoint, b'{"type": ' + b"9" * 1_000_000 + b"}", JSON, path))[0] == 400


# Heads and connections.


async def begin(endpoint: Endpoint, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(data)
    await writer.drain()
    return reader, writer


MESSAGE = (
    b"POST /nobody/mesos.internal.X HTTP/1.1\r\nUser-Agent: libprocess/a@127.0.0.1:1\r\n"
    b"Libprocess-From: a@127.0.0.1:1\r\nConnection: Keep-Alive\r\nHost: \r\nContent-Length: 0\r\n\r\n"
)
REQUEST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


async def answered(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), 30) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("before", [b"", REQUEST])
async def test_a_head_that_is_begun_and_not_ended_is_closed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(front, "HEAD_S", 0.05)
    reader, writer = await begin(endpoint, before)
    if before:
        await answered(reader)
    writer.write(b"GET /health HTTP/1.1\r\nHost:")
    assert await closed(reader)
    writer.close()


async def test_a_connection_on_which_nothing_was_begun_stays(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libprocess' links do, which say nothing until there is something to say."""
    monkeypatch.setattr(front, "HEAD_S", 0.05)
    quiet, asked = await begin(endpoint), await begin(endpoint, REQUEST)
    await answered(asked[0])
    hung = await begin(endpoint, b"GET")
    assert await closed(hung[0])
    for reader, writer in (quiet, asked):
        writer.write(REQUEST)
        assert (await answered(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    hung[1].close()


async def test_when_there_is_no_room_who_asks_nothing_gives_way(start: Start) -> None:
    endpoint: Endpoint = await start(8)
    message = await begin(endpoint, MESSAGE)
    await answered(message[0])
    idle = await begin(endpoint, REQUEST)
    await answered(idle[0])
    silent = [await begin(endpoint, b"GET") for _ in range(20)]
    status, _ = await get(endpoint, "/health")
    assert status == 200, "somebody new is served"
    idle[1].write(REQUEST)
    assert (await answered(idle[0])).startswith(b"HTTP/1.1 200"), "who has asked before comes before who has not"
    assert message[0].at_eof() is False
    assert [await closed(reader) for reader, _ in silent[:13]] == [True] * 13
    for _, writer in (message, idle, *silent):
        writer.close()


async def test_out_of_descriptors_the_port_says_so_once_and_serves_again(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "NO_ROOM_PAUSE_S", 0.05)
    endpoint: Endpoint = await start(10_000)
    reader, writer = await begin(endpoint, REQUEST)
    await answered(reader)
    writer.close()
    calls = []
    accept = socket.socket.accept

    def no_room(self: socket.socket) -> object:
        calls.append(self)
        if len(calls) < 4:
            raise OSError(24, "Too many open files")
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", no_room)
    with caplog.at_level(logging.INFO):
        assert (await get(endpoint, "/health"))[0] == 200
    said = [
        record for record in caplog.records if record.name == connections.__name__ and record.levelno >= logging.ERROR
    ]
    assert len(said) == 3, "one for each time that it was tried"
    assert not any(record.exc_info for record in said)


def test_some_descriptors_are_kept_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    assert connections.most_connections() == 1024 - connections.RESERVED
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    assert connections.most_connections() == connections.LEAST


# Files.


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/files/browse", {"path": f"{SANDBOX}/a\0b"}),
        ("/files/read", {"path": f"{SANDBOX}/\0", "offset": "0"}),
        ("/files/download", {"path": f"{SANDBOX}/{'n' * 300}"}),
        ("/files/read", {"path": f"{SANDBOX}/log", "offset": "9" * 30}),
        ("/files/read", {"path": f"{SANDBOX}/log", "offset": "9" * 5000}),
        ("/files/read", {"path": f"{SANDBOX}/log", "offset": "0", "length": "9" * 30}),
    ],
)
async def test_no_path_and_no_number_is_a_fault_of_ours(
    endpoint: Endpoint, tmp_path: Path, path: str, query: dict[str, str]
) -> None:
    (tmp_path / "log").write_text("hello")
    assert (await get(endpoint, path, **query))[0] in (400, 404)


async def test_a_name_that_is_no_text_is_listed_and_read_by_what_is_shown(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello")
    odd = bytes(tmp_path) + b"/\xff\xfe"
    Path(odd.decode(errors="surrogateescape")).write_bytes(b"odd")
    status, text = await get(endpoint, "/files/browse", path=SANDBOX)
    assert status == 200
    assert [entry["path"] for entry in json.loads(text)] == [f"{SANDBOX}/log", f"{SANDBOX}/{NOT_UTF8 * 2}"]
    status, text = await get(endpoint, "/files/read", path=f"{SANDBOX}/{NOT_UTF8 * 2}", offset="0")
    assert (status, json.loads(text)["data"]) == (200, "odd")


async def test_a_folder_is_listed_beside_everything_else(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer keeps nobody waiting but who asked."""
    answers = threading.Event()
    scandir = files.os.scandir

    def slow(path: int) -> object:
        assert answers.wait(60)
        return scandir(path)

    monkeypatch.setattr(files.os, "scandir", slow)
    listing = asyncio.ensure_future(get(endpoint, "/files/browse", path=SANDBOX))
    try:
        assert (await get(endpoint, "/health"))[0] == 200
        assert not listing.done()
    finally:
        answers.set()
    assert (await listing)[0] == 200


async def test_a_folder_of_too_many_files_is_refused_in_words(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(files, "MAX_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    status, words = await get(endpoint, "/files/browse", path=SANDBOX)
    assert status == 400
    assert words == golden
    (tmp_path / "d").unlink()
    assert (await get(endpoint, "/files/browse", path=SANDBOX))[0] == 200
