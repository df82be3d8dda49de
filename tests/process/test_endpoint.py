"""Endpoints over real sockets on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from multidict import CIMultiDict

from mesos_gpu.errors import (
    BadInput,
    Conflict,
    ContainerError,
    DeviceError,
    Forbidden,
    ImageError,
    MesosGpuError,
    NotFound,
    ProtocolError,
    TimeIsUp,
    Unavailable,
)
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.process import streams
from mesos_gpu.process.bodies import BODIES, Bodies, read_body, read_form
from mesos_gpu.process.build import PACKAGE, build
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import EventStream, json_response, make_app
from mesos_gpu.process.operator_frame import ANY_SEGMENT, Handler, only, segment, status_of
from mesos_gpu.process.requests import JSON, PROTOBUF, accepted_type, accepts, header
from mesos_gpu.process.system_metrics import system_metrics
from tests.support.frame import PROCESS, frame_app
from tests.support.places import RECORDED


class Inbox:
    """A process that keeps what it gets, and what it is told of broken links."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.exited: asyncio.Queue[Pid] = asyncio.Queue()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Endpoint, Inbox, Endpoint, Inbox]]:
    """Two endpoints, `master` and `slave(1)`, each with an inbox."""
    made = []
    for name in ("master", "slave(1)"):
        endpoint, inbox = Endpoint("127.0.0.1", 0), Inbox()
        await endpoint.start(_app())
        endpoint.spawn(name, inbox.messages.put_nowait, inbox.exited.put_nowait)
        made += [endpoint, inbox]
    yield tuple(made)  # type: ignore[misc]
    await made[0].stop()
    await made[2].stop()


def _app() -> web.Application:
    async def hello(_: web.Request) -> web.Response:
        return json_response({"hello": "world"})

    async def events(request: web.Request) -> web.StreamResponse:
        stream = await EventStream.open(request, {"Mesos-Stream-Id": "s1"})
        request.app["opened"].put_nowait(stream)
        await stream.closed()
        request.app["ended"].put_nowait(stream)
        return stream.response

    app = make_app()
    with pytest.warns(web.NotAppKeyWarning):
        app["opened"], app["ended"] = asyncio.Queue(), asyncio.Queue()
    app.router.add_get("/hello", hello)
    app.router.add_get("/events", events)
    return app


async def test_messages_over_a_link_arrive_in_order(pair: tuple[Endpoint, Inbox, Endpoint, Inbox]) -> None:
    master, inbox, slave, _ = pair
    slave.link("slave(1)", master.pid("master"))
    for n in range(200):
        slave.send("slave(1)", master.pid("master"), "mesos.internal.Numbered", str(n).encode())
    got = [await inbox.messages.get() for _ in range(200)]
    assert [int(message.body) for message in got] == list(range(200))
    assert got[0].sender == slave.pid("slave(1)")
    assert got[0].name == "mesos.internal.Numbered"


async def test_a_message_without_a_link_arrives_though_the_sender_closes_at_once(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox],
) -> None:
    master, inbox, slave, _ = pair
    for _ in range(50):
        slave.send("slave(1)", master.pid("master"), "mesos.internal.PongSlaveMessage", b"")
    assert len([await inbox.messages.get() for _ in range(50)]) == 50


async def test_the_owner_of_a_link_is_told_once_that_it_broke(pair: tuple[Endpoint, Inbox, Endpoint, Inbox]) -> None:
    master, inbox, slave, slave_inbox = pair
    pid = master.pid("master")
    slave.link("slave(1)", pid)
    slave.link("slave(1)", pid)
    slave.send("slave(1)", pid, "mesos.internal.Hello", b"")
    await inbox.messages.get()
    await master.stop()
    assert await slave_inbox.exited.get() == pid
    slave.link("slave(1)", pid)
    assert await slave_inbox.exited.get() == pid, "a link that cannot be made is told as well"
    assert slave_inbox.exited.empty()


@pytest.mark.parametrize("silent", [True, False])
async def test_what_did_not_arrive_over_a_link_that_is_given_up_never_does_if_so_wanted(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox], silent: bool
) -> None:
    """A peer that reads nothing, as behind a cut cable, and then reads all there is."""
    body = b"x" * (1 << 24)  # more than kernels keep for one connection
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        peer = Pid("slave(1)", "127.0.0.1", listening.getsockname()[1])
        pair[0].link("master", peer)
        accepted, _ = await asyncio.to_thread(listening.accept)
        with accepted:
            pair[0].send("master", peer, "mesos.internal.RunTaskMessage", body)
            await asyncio.to_thread(accepted.recv, 1)  # it is on its way
            pair[0].unlink(peer, silent=silent)
            received = await asyncio.to_thread(_all_of, accepted)
    assert (received >= len(body)) is not silent
    assert pair[1].exited.empty()


@pytest.mark.parametrize("silent", [True, False])
async def test_a_message_that_waits_for_its_link_is_lost_if_the_link_is_unlinked_silently(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox], silent: bool
) -> None:
    master, _, slave, inbox = pair
    peer = slave.pid("slave(1)")
    master.link("master", peer)
    master.send("master", peer, "mesos.internal.RunTaskMessage", b"")
    master.unlink(peer, silent=silent)
    master.send("master", peer, "mesos.internal.PingSlaveMessage", b"")
    expected = {"mesos.internal.PingSlaveMessage"} | (set() if silent else {"mesos.internal.RunTaskMessage"})
    assert {(await inbox.messages.get()).name for _ in expected} == expected
    await master.stop()
    assert inbox.messages.empty()


def _all_of(connection: socket.socket) -> int:
    """How many bytes come until the connection ends, or breaks."""
    received = 0
    while True:
        try:
            data = connection.recv(1 << 20)
        except ConnectionResetError:
            return received
        if not data:
            return received
        received += len(data)


async def test_http_and_messages_share_the_port(pair: tuple[Endpoint, Inbox, Endpoint, Inbox]) -> None:
    master, inbox, slave, _ = pair
    slave.send("slave(1)", master.pid("master"), "mesos.internal.Hello", b"x")
    await inbox.messages.get()
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{master.port}/hello") as answer:
        assert await answer.json() == {"hello": "world"}


async def test_a_message_to_an_unknown_process_is_answered_404(pair: tuple[Endpoint, Inbox, Endpoint, Inbox]) -> None:
    master, _, slave, _ = pair
    reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
    to = Pid("nobody", "127.0.0.1", master.port)
    writer.write(libprocess.encode(slave.pid("slave(1)"), to, "mesos.internal.Hello", b"x"))
    assert b"404" in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_garbage_after_a_message_closes_that_connection_only(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox],
) -> None:
    master, inbox, slave, _ = pair
    reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
    good = libprocess.encode(slave.pid("slave(1)"), master.pid("master"), "mesos.internal.Hello", b"x")
    writer.write(good + b"BREW /pot HTTP/1.1\r\n\r\n")
    assert (await inbox.messages.get()).body == b"x"
    assert (await reader.read()).count(b"202") <= 1
    writer.close()
    await writer.wait_closed()
    slave.send("slave(1)", master.pid("master"), "mesos.internal.Hello", b"y")
    assert (await inbox.messages.get()).body == b"y"


async def test_a_handler_that_raises_does_not_cost_the_next_message(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox],
) -> None:
    master, _, slave, _ = pair
    got: asyncio.Queue[bytes] = asyncio.Queue()

    def handle(message: Message) -> None:
        if message.body == b"bad":
            raise RuntimeError("cannot handle this")
        got.put_nowait(message.body)

    master.spawn("fragile", handle)
    slave.link("slave(1)", master.pid("fragile"))
    slave.send("slave(1)", master.pid("fragile"), "m", b"bad")
    slave.send("slave(1)", master.pid("fragile"), "m", b"good")
    assert await got.get() == b"good"


async def test_a_taken_port_is_said_plainly(pair: tuple[Endpoint, Inbox, Endpoint, Inbox]) -> None:
    other = Endpoint("127.0.0.1", pair[0].port)
    with pytest.raises(Unavailable, match=str(pair[0].port)):
        await other.start(make_app())


async def test_a_stream_sends_whole_records_and_notices_that_the_client_left() -> None:
    app, endpoint = _app(), Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"http://127.0.0.1:{endpoint.port}/events")
        stream = await app["opened"].get()
        stream.send({"n": 1})
        stream.send({"n": 2})
        decoder = RecordDecoder()
        records: list[bytes] = []
        while len(records) < 2:
            records += decoder.feed(await answer.content.readany())
        assert records == [b'{"n":1}', b'{"n":2}']
        assert answer.headers["Mesos-Stream-Id"] == "s1"
        answer.close()
        assert await app["ended"].get() is stream
    await endpoint.stop()


async def test_a_record_larger_than_may_wait_is_sent_and_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 1000)
    app = _app()
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{endpoint.port}/events") as answer:
        stream = await app["opened"].get()
        stream.send({"state": "x" * 100_000})
        stream.send({"n": 1})
        decoder, records = RecordDecoder(), list[bytes]()
        while len(records) < 2:
            records += decoder.feed(await answer.content.readany())
        assert [len(record) > 1000 for record in records] == [True, False]
    await endpoint.stop()


async def test_stopping_ends_open_streams() -> None:
    app, endpoint = _app(), Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"http://127.0.0.1:{endpoint.port}/events")
        (await app["opened"].get()).send({"last": True})
        await endpoint.stop()
        assert await answer.read() == b'13\n{"last":true}'


async def test_answers_come_in_the_order_of_the_requests_sent_byte_by_byte(
    pair: tuple[Endpoint, Inbox, Endpoint, Inbox],
) -> None:
    """Chunked, empty and with a length, one after the other on a connection: 202, 404, 202."""
    master, inbox, slave, _ = pair
    sender, to = slave.pid("slave(1)"), master.pid("master")
    nobody = Pid("nobody", to.ip, to.port)
    head = f"POST /master/m HTTP/1.1\r\nLibprocess-From: {sender}\r\n"
    requests = [
        f"{head}Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n".encode(),
        libprocess.encode(sender, nobody, "m", b""),
        f"{head}\r\n".encode(),
        f"{head}Content-Length: 5\r\n\r\nthree".encode(),
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
    for byte in b"".join(requests):
        writer.write(bytes([byte]))
        await writer.drain()
    assert [(await inbox.messages.get()).body for _ in range(3)] == [b"one", b"", b"three"]
    writer.write_eof()
    found = re.findall(rb"HTTP/1\.1 (\d+)", await reader.read())
    assert found == [b"202", b"404", b"202", b"202"]
    writer.close()
    await writer.wait_closed()


def test_of_a_header_that_comes_again_the_last_counts() -> None:
    twice = make_mocked_request("POST", "/", CIMultiDict([("X", "first"), ("Y", "y"), ("x", "last")]))
    assert header(twice, "X") == "last"
    assert header(twice, "Z") is None


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ((), JSON),
        (("*/*", PROTOBUF), PROTOBUF),
        ((PROTOBUF, JSON), JSON),
        (("text/html", JSON), JSON),
        ((JSON, "text/html"), None),
    ],
)
def test_the_last_accept_header_decides(given: tuple[str, ...], answered: str | None) -> None:
    """As with requests' default `*/*` beside what a client asks for: `dcos task exec` and mesos-go send both."""
    request = make_mocked_request("POST", "/", CIMultiDict([("Accept", value) for value in given]))
    assert accepted_type(request) == answered


def test_a_type_that_is_worth_nothing_is_not_accepted() -> None:
    assert accepts(f"{JSON};q=0, {PROTOBUF}", (JSON, PROTOBUF)) == PROTOBUF


KIB = 1024
MOST = 1024 * KIB


async def _echo(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await read_body(request))))


async def _form(request: web.Request) -> web.Response:
    return web.json_response(await read_form(request))


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    monkeypatch.setattr("mesos_gpu.process.endpoint._LINGER_S", 0.1)
    app = make_app()
    app[BODIES] = Bodies(MOST)
    app.router.add_post("/echo", _echo)
    app.router.add_post("/form", _form)
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    yield endpoint
    await endpoint.stop()


async def begin(endpoint: Endpoint, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send `size` bytes of a body that is said to be longer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {size + 1}\r\n\r\n".encode() + b"x" * size)
    await writer.drain()
    return reader, writer


async def post(endpoint: Endpoint, body: bytes, path: str = "/echo") -> tuple[int, str]:
    url = f"http://127.0.0.1:{endpoint.port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as response:
        return response.status, await response.text()


async def test_of_too_many_unfinished_bodies_the_largest_gives_way_and_small_ones_are_served(
    endpoint: Endpoint,
) -> None:
    large = await begin(endpoint, 700 * KIB)
    medium = [await begin(endpoint, 300 * KIB), await begin(endpoint, 200 * KIB)]
    head = await asyncio.wait_for(large[0].readuntil(b"\r\n\r\n"), 60)
    assert head.startswith(b"HTTP/1.1 503 ")
    assert str(MOST).encode() in await asyncio.wait_for(large[0].read(), 60), "and that connection is closed"
    large[1].close()
    assert await post(endpoint, b"small") == (200, "5")
    # A body of one byte more than these have is whole, and they are held no longer.
    for size, (reader, writer) in zip((300, 200), medium, strict=True):
        writer.write(b"x")
        answer = await asyncio.wait_for(reader.readuntil(str(size * KIB + 1).encode()), 60)
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert await post(endpoint, b"x" * MOST) == (200, str(MOST)), "nothing is counted any more"


async def test_a_sender_that_goes_in_the_middle_is_counted_no_more(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        _, writer = await begin(endpoint, 700 * KIB)
        writer.close()
        await writer.wait_closed()
    assert await post(endpoint, b"x" * MOST) == (200, str(MOST))
    assert not caplog.records, "and nobody is told of it"


async def test_forms_have_the_first_of_each_name(endpoint: Endpoint) -> None:
    assert await post(endpoint, b"a=1&b=%7B%7D&a=2&c=", "/form") == (200, '{"c": "", "a": "1", "b": "{}"}')


AGENT = {one["request"]["path"]: one["response"] for one in json.loads((RECORDED / "agent-get-idle.json").read_text())}
MASTER = json.loads((RECORDED / "master.json").read_text())["get"]["idle"]
RECORDINGS = [*AGENT.items(), *MASTER.items()]
Answer = tuple[int, str, dict[str, str]]


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async with TestClient(TestServer(app)) as client:
        yield client


async def get(client: Any, path: str, method: str = "GET") -> Answer:
    async with client.request(method, path) as answer:
        return answer.status, await answer.text(), dict(answer.headers)


def says(words: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=words)

    return handle


@pytest.mark.parametrize("path", ["/nosuch", "/state.json", "/health", "/api/v1", "/logging/toggle", "/files/debug"])
async def test_master_and_agent_answer_as_recorded(path: str) -> None:
    async with served(frame_app({"state": says("")}, {"api/v1": only("POST", says(""))})) as client:
        for recorded_path, recorded in RECORDINGS:
            if recorded_path != path:
                continue
            status, body, headers = await get(client, path)
            assert status == recorded["status"]
            expected = recorded["body"]
            assert body.strip() == (expected if isinstance(expected, str) else json.dumps(expected))
            for name in ("Allow", "Content-Type"):
                assert headers.get(name) == recorded["headers"].get(name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a", "a"),
        (f"/{PROCESS}/a", "a"),
        ("/a/", "a"),
        (f"/{PROCESS}//a", "a"),
        ("/a/x/y", "a"),
        ("/a/b", "a/b"),
        (f"/{PROCESS}/a/b/x", "a/b"),
        ("/g/U-1/ok", "g/*/ok"),
        ("/g/U-1/no", "g"),
        ("/b", None),
        ("/", None),
        (f"/{PROCESS}", None),
        ("/x/a", None),
    ],
)
async def test_paths_are_folded_until_an_endpoint_fits(path: str, name: str | None) -> None:
    names = ("a", "a/b", "g", f"g/{ANY_SEGMENT}/ok")
    async with served(frame_app({known: says(known) for known in names})) as client:
        assert (await get(client, path))[:2] == ((200, name) if name else (404, "404 Not Found."))


async def test_what_is_looked_at_answers_to_every_method_until_lists_say_who_may_see_it() -> None:
    for acls, of_flags in ((OPEN, 200), (Acls(), 405)):
        app = frame_app({"state": says("it"), "containers": says("them")}, acls=acls)
        async with served(app) as client:
            assert await get(client, "/state", "POST") == (200, "it", ANY)
            for path in ("/flags", "/containers"):
                assert (await get(client, path, "PUT"))[0] == of_flags
                assert (await get(client, path))[0] == 200


async def test_the_segment_that_a_name_leaves_open_is_told() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=segment(request))

    async with served(frame_app(called={f"gpus/{ANY_SEGMENT}/healthy": only("POST", handle)})) as client:
        assert (await get(client, "/gpus/GPU-1/healthy", "POST"))[:2] == (200, "GPU-1")
        assert (await get(client, "/gpus/GPU-1/healthy"))[0] == 405


async def test_json_at_the_end_of_a_path_counts_only_where_it_is_wanted() -> None:
    for wanted in (False, True):
        async with served(frame_app({"state": says("it")}, json_suffixes=wanted)) as client:
            assert (await get(client, "/state.json"))[0] == (200 if wanted else 404)
            assert (await get(client, "/system/stats.json"))[0] == 200


REFUSALS = [
    (NotFound, 404),
    (Forbidden, 403),
    (BadInput, 400),
    (Conflict, 409),
    (Unavailable, 503),
    (TimeIsUp, 503),
    (ContainerError, 500),
    (DeviceError, 500),
    (ImageError, 500),
    (ProtocolError, 500),
]


@pytest.mark.parametrize(("kind", "status"), REFUSALS)
async def test_what_an_endpoint_raises_is_answered_in_words(kind: type[MesosGpuError], status: int) -> None:
    async def raises(request: web.Request) -> web.Response:
        raise kind("these words")

    assert status_of(kind("")) == status
    async with served(frame_app({"it": raises})) as client:
        assert (await get(client, "/it"))[:2] == (status, "these words")


def test_the_build_is_as_old_as_the_newest_module_and_in_the_units_of_mesos(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for name, changed_s in (("old.py", 1_000_000_000), ("room/new.py", 1_795_252_800), ("data.json", 1_900_000_000)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (changed_s, changed_s))
    recorded = MASTER["/version"]["body"]
    ours = build(tmp_path)
    assert {name: ours[name] for name in ("build_date", "build_time", "version")} == {
        "build_date": "2026-11-21 09:20:00 UTC",
        "build_time": 1795252800.0,
        "version": recorded["version"],
    }
    assert (recorded["build_date"], recorded["build_time"]) == (ours["build_date"], ours["build_time"])


async def test_version_tells_a_true_build_time() -> None:
    async with served(frame_app()) as client:
        told = json.loads((await get(client, "/version"))[1])
    assert told["build_time"] == max(int(path.stat().st_mtime) for path in PACKAGE.rglob("*.py"))
    assert told["build_date"] == datetime.fromtimestamp(told["build_time"], timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S UTC"
    )


def test_a_number_of_cpus_that_nobody_knows_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = [response["body"]["system/cpus_total"] for path, response in RECORDINGS if path == "/metrics/snapshot"]
    assert recorded == [2.0, 2.0]
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert system_metrics()["system/cpus_total"] == 2.0
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert "system/cpus_total" not in system_metrics()


async def test_help_lists_the_endpoints_of_every_program_and_its_own() -> None:
    async with served(frame_app({"mine": says("")}, {"api/v1": says("")})) as client:
        listed = (await get(client, "/help"))[1].splitlines()
    common = {"/health", "/version", "/flags", "/metrics/snapshot", "/system/stats.json", "/logging/toggle", "/help"}
    assert common | {"/mine", "/api/v1", "/files/browse", "/files/debug"} <= set(listed)
