"""Endpoints that speak TLS, over real sockets on loopback: who gets in, who does not, and what the log says of them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.mesos.security.tls_words import tls_words
from mesos_gpu.process import front
from mesos_gpu.process.detector import open_detector
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import EventStream, json_response, make_app
from mesos_gpu.process.secure import tls as tls_module
from mesos_gpu.process.secure.tls import Reverse, Tls, reverse_name
from mesos_gpu.process.secure.tls_context import own_certificate
from tests.support.logs import PATIENCE_S, logged, soon
from tests.support.tls import Authority

NAME = "mesos.internal.Hello"


async def localhost(_: str) -> str:
    return "localhost"


async def nobody(_: str) -> None:
    return None


class Party:
    """One program: its port, what it was told, and of whom it was told that they are gone."""

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self.name, self.endpoint = name, endpoint
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.exited: asyncio.Queue[Pid] = asyncio.Queue()
        endpoint.spawn(name, self.messages.put_nowait, self.exited.put_nowait)

    @property
    def pid(self) -> Pid:
        return self.endpoint.pid(self.name)

    async def hears(self, other: Party, *, linked: bool = True, to: Pid | None = None) -> bool:
        """Say something to `other`; tell whether it arrives, or the connection is known not to have come about."""
        pid = to or other.pid
        if linked:
            self.endpoint.link(self.name, pid)
        self.endpoint.send(self.name, pid, NAME, b"x" * 100_000)
        came, broke = asyncio.ensure_future(other.messages.get()), asyncio.ensure_future(self.exited.get())
        done, left = await asyncio.wait([came, broke], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        for waiting in left:
            waiting.cancel()
        assert done, "neither did it arrive, nor was the sender told"
        return came in done


class Circle:
    """Programs of one test, with certificates of one authority."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.parties: list[Party] = []

    def settings(self, kind: str = "server", *, expired: bool = False) -> TlsSettings:
        certificate, key = certificate_of(self.authority, kind, expired)
        return TlsSettings(str(certificate), str(key), ca_file=str(self.authority.certificate))

    async def join(self, name: str, settings: TlsSettings | None, reverse: Reverse = localhost) -> Party:
        endpoint = Endpoint("127.0.0.1", 0, tls=None if settings is None else Tls(settings, reverse=reverse))
        await endpoint.start(_app())
        party = Party(name, endpoint)
        self.parties.append(party)
        return party


def certificate_of(authority: Authority, kind: str, expired: bool = False) -> tuple[Path, Path]:
    """One certificate of each kind is enough for all tests."""
    name = f"{kind}{'-expired' if expired else ''}"
    certificate, key = authority.certificate.with_name(f"{name}.pem"), authority.certificate.with_name(f"{name}.key")
    return (certificate, key) if certificate.exists() else authority.issue(name, kind=kind, expired=expired)


def _app() -> web.Application:
    async def hello(request: web.Request) -> web.Response:
        return json_response({"scheme": request.scheme, "length": len(await request.read())})

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"//{request.host}"})

    async def events(request: web.Request) -> web.StreamResponse:
        stream = await EventStream.open(request)
        for number in range(3):
            stream.send({"n": number})
        stream.close()
        await stream.closed()
        return stream.response

    app = make_app()
    app.router.add_route("*", "/hello", hello)
    app.router.add_get("/master/redirect", redirect)
    app.router.add_get("/events", events)
    return app


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other-ca"))


@pytest.fixture
async def circle(authority: Authority) -> AsyncIterator[Circle]:
    made = Circle(authority)
    yield made
    for party in made.parties:
        await party.endpoint.stop()


@asynccontextmanager
async def client(authority: Authority) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that trusts the authority and looks at names."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def test_messages_and_http_are_both_behind_tls_on_the_one_port(circle: Circle) -> None:
    verified = replace(circle.settings(), verify_server=True)
    master, agent = await circle.join("master", verified), await circle.join("slave(1)", verified)
    assert str(master.pid) == f"master@127.0.0.1:{master.endpoint.port}"
    agent.endpoint.link("slave(1)", master.pid)
    for number in range(200):
        agent.endpoint.send("slave(1)", master.pid, NAME, str(number).encode())
    got = [await soon(master.messages.get()) for _ in range(200)]
    assert [int(message.body) for message in got] == list(range(200))
    assert got[0].sender == agent.pid
    async with client(circle.authority) as session:
        async with session.post(f"{master.endpoint.url}/hello", data=b"y" * 1_000_000) as answer:
            assert await answer.json() == {"scheme": "https", "length": 1_000_000}
        async with session.get(f"{master.endpoint.url}/events") as answer:
            assert await answer.text() == '7\n{"n":0}7\n{"n":1}7\n{"n":2}'


async def test_a_message_without_a_link_arrives_though_the_sender_closes_at_once(circle: Circle) -> None:
    master, agent = [await circle.join(name, circle.settings()) for name in ("master", "slave(1)")]
    for number in range(20):
        agent.endpoint.send("slave(1)", master.pid, NAME, b"%d" % number * 1000)
    got = [await soon(master.messages.get()) for _ in range(20)]
    assert {message.body for message in got} == {b"%d" % number * 1000 for number in range(20)}


async def test_the_owner_of_a_link_is_told_when_it_breaks(circle: Circle) -> None:
    master, agent = [await circle.join(name, circle.settings()) for name in ("master", "slave(1)")]
    assert await agent.hears(master)
    await master.endpoint.stop()
    assert await soon(agent.exited.get()) == master.pid


def meaning(reason: str) -> str:
    """Return the text that the log has for this error of OpenSSL."""
    found = tls_words(reason, authorities="LIBPROCESS_SSL_CA_FILE")
    assert found is not None
    return found


async def test_without_downgrade_nobody_is_spoken_to_in_the_clear(
    circle: Circle, caplog: pytest.LogCaptureFixture
) -> None:
    secure, plain = await circle.join("secure", circle.settings()), await circle.join("plain", None)
    assert not await plain.hears(secure)
    assert not await secure.hears(plain)
    await logged(caplog, f"127.0.0.1:{plain.endpoint.port}: ")
    await logged(caplog, f"{front.__name__}:")
    await logged(caplog, meaning("http request"))
    async with client(circle.authority) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(secure.endpoint.url.replace("https", "http") + "/hello")
        async with session.get(f"{secure.endpoint.url}/hello") as answer:
            assert answer.status == 200, "the others are served as before"


async def test_with_downgrade_both_are_spoken_on_the_port_and_links_fall_back(
    circle: Circle, caplog: pytest.LogCaptureFixture
) -> None:
    lenient = replace(circle.settings(), downgrade=True)
    both, plain = await circle.join("both", lenient), await circle.join("plain", None)
    secure = await circle.join("secure", circle.settings())
    for linked in (False, True):
        assert await plain.hears(both, linked=linked)
        assert await both.hears(plain, linked=linked)
        assert await secure.hears(both, linked=linked)
        assert await both.hears(secure, linked=linked)
    said = [message for message in caplog.messages if f"127.0.0.1:{plain.endpoint.port}: " in message]
    assert len(said) == 1
    assert f"127.0.0.1:{secure.endpoint.port}: " not in caplog.text
    async with client(circle.authority) as session:
        for scheme in ("http", "https"):
            async with session.get(f"{scheme}://127.0.0.1:{both.endpoint.port}/hello") as answer:
                assert (await answer.json())["scheme"] == scheme


@pytest.mark.parametrize(("kind", "expired"), [("server", True), ("elsewhere", False)])
async def test_a_server_with_a_bad_certificate_is_not_spoken_to(
    circle: Circle,
    kind: str,
    expired: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as other_program:  # ours would not start with an expired certificate
        other_program.setattr(tls_module, "own_certificate", lambda settings: {})
        bad = await circle.join("bad", circle.settings(kind, expired=expired))
    agent = await circle.join("slave(1)", replace(circle.settings(), verify_server=True, verify_ip=True))
    assert not await agent.hears(bad)
    assert bad.messages.empty()
    await logged(caplog, f"127.0.0.1:{bad.endpoint.port}: ")
    assert (meaning("certificate has expired") in caplog.text) is expired


async def test_a_server_of_another_authority_is_spoken_to_only_by_who_does_not_verify(
    circle: Circle, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = certificate_of(stranger, "server")
    other = await circle.join("other", TlsSettings(str(certificate), str(key)))
    careful = await circle.join("careful", replace(circle.settings(), verify_server=True))
    careless = await circle.join("careless", circle.settings())
    assert not await careful.hears(other)
    await logged(caplog, meaning("unable to get local issuer certificate"))
    assert await careless.hears(other)


async def test_clients_must_show_a_certificate_where_that_is_asked_for(
    circle: Circle, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    strict = replace(circle.settings(), verify_server=True, require_client=True)
    master, agent = await circle.join("master", strict), await circle.join("slave(1)", strict)
    assert await agent.hears(master)
    certificate, key = certificate_of(stranger, "server")
    intruder = await circle.join("intruder", TlsSettings(str(certificate), str(key)))
    assert not await intruder.hears(master)
    await logged(caplog, meaning("unable to get local issuer certificate"))
    async with client(circle.authority) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{master.endpoint.url}/hello")
    await logged(caplog, meaning("peer did not return a certificate"))
    assert await agent.hears(master)


@pytest.mark.parametrize(
    ("scheme", "by_ip", "called", "reverse", "gets_in"),
    [
        ("legacy", False, None, localhost, True),
        ("legacy", False, None, nobody, False),
        ("legacy", True, None, nobody, True),
        ("legacy", False, "localhost", nobody, True),
        ("openssl", False, None, localhost, False),
        ("openssl", True, None, nobody, True),
        ("openssl", False, "localhost", nobody, True),
        ("openssl", False, "elsewhere.example.org", localhost, False),
        ("openssl", True, "elsewhere.example.org", localhost, True),
    ],
)
async def test_whose_certificate_it_must_be_is_what_the_scheme_says(
    circle: Circle, scheme: str, by_ip: bool, called: str | None, reverse: Reverse, gets_in: bool
) -> None:
    master = await circle.join("master", circle.settings())
    settings = replace(circle.settings(), verify_server=True, scheme=scheme, verify_ip=by_ip)
    agent = await circle.join("slave(1)", settings, reverse)
    to = replace(master.pid, host=called)
    assert to == master.pid, "what a process is called is not part of who it is"
    assert await agent.hears(master, to=to) is gets_in


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def stalling(port: int, said: bytes) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    return reader, writer


async def hung_up(connection: Connection) -> None:
    reader, writer = connection
    try:
        assert await soon(reader.read()) == b""
    except ConnectionError:
        pass  # hung up on, in the harder way
    writer.close()


async def test_nobody_waits_for_who_stalls_and_stopping_does_not_either(circle: Circle) -> None:
    for downgrade in (False, True):
        agent = await circle.join("slave(1)", circle.settings())
        party = await circle.join("master", replace(circle.settings(), downgrade=downgrade))
        stalled = [await stalling(party.endpoint.port, said) for said in (b"", b"\x16", b"\x16\x03\x01") * 3]
        assert await agent.hears(party)
        await soon(party.endpoint.stop())
        for connection in stalled:
            await hung_up(connection)


async def test_who_stalls_is_dropped_in_time_and_named(
    circle: Circle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_module, "HANDSHAKE_S", 0.1)
    for downgrade in (False, True):
        party = await circle.join("master", replace(circle.settings(), downgrade=downgrade))
        for said in (b"", b"\x16"):
            caplog.clear()  # the kernel may give one port twice
            connection = await stalling(party.endpoint.port, said)
            peer = f"127.0.0.1:{connection[1].get_extra_info('sockname')[1]}: "
            await hung_up(connection)
            await logged(caplog, peer)
            (line,) = (message for message in caplog.messages if peer in message)
            stalled, silent = meaning("taking longer than"), "0.1 s"
            # On a busy machine the first byte may come too late as well.
            may = (stalled,) if not downgrade else (silent,) if not said else (stalled, silent)
            assert line.endswith(may)


async def test_only_tls_1_2_is_spoken_unless_1_3_is_switched_on(circle: Circle) -> None:
    old = await circle.join("old", circle.settings())
    new = await circle.join("new", replace(circle.settings(), tls_1_2=False, tls_1_3=True))
    both = await circle.join("both", replace(circle.settings(), tls_1_3=True))
    assert not await old.hears(new)
    assert not await new.hears(old)
    for other in (old, new):
        assert await both.hears(other)
        assert await other.hears(both)


async def test_masters_of_a_list_are_asked_over_tls_by_the_names_they_were_given(circle: Circle) -> None:
    heard: asyncio.Queue[Pid | None] = asyncio.Queue()
    careful = replace(circle.settings(), verify_server=True, scheme="openssl")
    secure, plain = await circle.join("master", circle.settings()), await circle.join("plain", None)
    asked: list[tuple[Endpoint, bool]] = [(secure.endpoint, False), (plain.endpoint, True)]
    for endpoint, downgrade in asked:
        address = f"localhost:{endpoint.port}"
        tls = Tls(replace(careful, downgrade=downgrade))
        detector = open_detector("master", f"{address},{address}", tls=tls)
        await detector.start(heard.put_nowait)
        found = await soon(heard.get())
        await detector.close()
        assert found == Pid("master", "127.0.0.1", endpoint.port)
        assert found.host == "localhost"


async def test_an_address_without_a_name_has_none() -> None:
    assert await reverse_name("192.0.2.1") is None
    assert await reverse_name("127.0.0.1") is not None


@pytest.mark.parametrize("said", [b"\x16\x03\x01", b"\x16"])
async def test_a_port_without_tls_hangs_up_on_a_handshake_at_once(
    circle: Circle, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    plain = await circle.join("plain", None)
    await hung_up(await stalling(plain.endpoint.port, said))
    await logged(caplog, f"{front.__name__}:")


async def test_renewed_files_count_for_new_connections(
    authority: Authority, stranger: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = {"cert": "node.pem", "key": "node.key", "ca": "ca.pem"}
    files = {what: tmp_path / name for what, name in names.items()}

    def install(by: Authority, name: str, *, also: Authority | None = None, without_key: bool = False) -> bytes:
        certificate, key = by.issue(name)
        files["cert"].write_bytes(certificate.read_bytes())
        if not without_key:
            files["key"].write_bytes(key.read_bytes())
        files["ca"].write_bytes(by.certificate.read_bytes() + (also.certificate.read_bytes() if also else b""))
        return ssl.PEM_cert_to_DER_cert(certificate.read_text())

    def shown(port: int) -> bytes:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))

    first = install(authority, "first")
    settings = TlsSettings(
        str(files["cert"]), str(files["key"]), ca_file=str(files["ca"]), verify_server=True, scheme="openssl"
    )
    tls = Tls(settings)
    urls = tls.for_urls()
    endpoint = Endpoint("127.0.0.1", 0, tls=tls)
    await endpoint.start(_app())
    try:
        assert await asyncio.to_thread(shown, endpoint.port) == first
        install(authority, "half", without_key=True)
        tls.look(0.0)
        tls.look(0.0)
        assert await asyncio.to_thread(shown, endpoint.port) == first
        assert caplog.text.count("the key is not that of the certificate") == 1
        second = install(stranger, "second", also=authority)
        tls.look(0.0)
        assert await asyncio.to_thread(shown, endpoint.port) == second
        url = f"https://localhost:{endpoint.port}/hello"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=urls) as answer:
            assert answer.status == 200, "a client that was made before believes the new authority"
    finally:
        await endpoint.stop()


async def test_a_certificate_that_expires_is_in_the_log_once_a_day(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = certificate_of(authority, "server")
    tls = Tls(TlsSettings(str(certificate), str(key)))
    end_s = ssl.cert_time_to_seconds(own_certificate(tls.settings)["notAfter"])
    for days_left in (10.0, 5.0, 4.99, 3.9, 3.8):
        tls.look(end_s - days_left * 86400)
    assert caplog.text.count(f"{certificate} expires at") == 2
