"""HTTP on kept connections, against servers that say exactly what a test wants, byte by byte."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marathon_cli.connection.access import Access, NoAnswer
from marathon_cli.connection.http import HttpClient
from marathon_cli.connection.transport import Transport, proxy_login
from mesos_gpu.errors import Unavailable
from tests.support.golden import Golden
from tests.support.marathon_cli.proxy import proxy
from tests.support.marathon_cli.scripted_server import ScriptedServer, scripted_server
from tests.support.tls import Authority

JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def saying(*connections: list[bytes]) -> Iterator[tuple[str, list[list[bytes]]]]:
    """Serve connections one after another: to each request on one the next words of its list, then hang up.

    Yield the URL, and what was heard on each connection.
    """
    heard: list[list[bytes]] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for words in connections:
                try:
                    taken, _ = listening.accept()
                except OSError:  # closed by the test
                    return
                heard.append([])
                with taken:
                    for said in words:
                        heard[-1].append(request_on(taken))
                        taken.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def request_on(taken: socket.socket) -> bytes:
    """Return the next request, whose body ends with a brace, as all of these tests' do."""
    said = b""
    while b"\r\n\r\n" not in said or (said.startswith(b"POST") and not said.endswith(b"}")):
        more = taken.recv(65536)
        if not more:
            break
        said += more
    return said


@pytest.fixture
def client() -> Iterator[Callable[[str], HttpClient]]:
    made: list[HttpClient] = []

    def make(url: str) -> HttpClient:
        made.append(HttpClient(url, what="agent", access=Access(read_s=20.0)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_one_connection_serves_many_requests(client: Callable[[str], HttpClient]) -> None:
    with saying([JSON, JSON, JSON]) as (url, heard):
        one = client(url)
        assert [one.ask("GET", f"/{n}").json() for n in range(3)] == [{}] * 3
        assert [said.split(b"\r\n")[0] for said in heard[0]] == [b"GET /%d HTTP/1.1" % n for n in range(3)]


def test_a_question_is_asked_again_when_a_kept_connection_was_closed_by_then(
    client: Callable[[str], HttpClient],
) -> None:
    # It hangs up right after its first answer, so the second request finds a dead connection, or one that dies.
    with saying([JSON], [JSON]) as (url, heard):
        one = client(url)
        assert one.ask("GET", "/a").ok
        assert one.ask("GET", "/b").ok
        assert [len(words) for words in heard] == [1, 1]


def test_a_change_that_broke_off_is_not_sent_again(client: Callable[[str], HttpClient]) -> None:
    with saying([JSON, b""], [JSON]) as (url, heard):
        one = client(url)
        assert one.ask("GET", "/a").ok
        with pytest.raises(Unavailable, match="closed connection without response"):
            one.ask("POST", "/b", body={})
        assert [len(words) for words in heard] == [2]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_comes_packed_is_unpacked(client: Callable[[str], HttpClient], coding: str) -> None:
    text = b'{"state": "' + b"x" * 200_000 + b'"}'
    packed = gzip.compress(text) if coding == "gzip" else zlib.compress(text)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    with saying([head + packed, JSON]) as (url, heard):
        one = client(url)
        assert one.ask("GET", "/state").content == text
        assert b"\r\nAccept-Encoding: gzip\r\n" in heard[0][0]
        with one.stream("GET", "/files", read_s=5.0) as answer:
            assert b"".join(answer.pieces()) == b"{}"
        assert b"\r\nAccept-Encoding: identity\r\n" in heard[0][1]


def test_what_is_not_packed_as_it_says_is_refused(client: Callable[[str], HttpClient], golden: Golden) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"
    with saying([said]) as (url, _), pytest.raises(Unavailable) as refused:
        client(url).ask("GET", "/state")
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{}\r\n",
    ],
)
def test_an_answer_that_is_cut_short_is_never_taken_for_a_whole_one(
    client: Callable[[str], HttpClient], said: bytes, golden: Golden
) -> None:
    with saying([said], [said]) as (url, _):
        with pytest.raises(Unavailable) as refused:
            client(url).ask("GET", "/state")
        assert str(refused.value) == golden
        with client(url).stream("GET", "/files", read_s=5.0) as answer, pytest.raises(NoAnswer) as refused:
            list(answer.pieces())
        assert str(refused.value) == golden


def test_lines_come_while_the_answer_goes_on(client: Callable[[str], HttpClient]) -> None:
    chunks = [b'{"a": ', b'1}\r\n{"b"', b": 2}\n\n", b'{"c": 3}']
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with saying([head + body + b"0\r\n\r\n", JSON]) as (url, heard):
        one = client(url)
        assert list(one.lines("POST", "/pull", body={})) == [{"a": 1}, {"b": 2}, {"c": 3}]
        assert one.ask("GET", "/after").ok
        assert len(heard) == 1  # a stream that was read to its end leaves a connection that can be used


def test_what_does_not_speak_http_is_said(client: Callable[[str], HttpClient], golden: Golden) -> None:
    with saying([b"220 mail.example ESMTP\r\n"]) as (url, _), pytest.raises(Unavailable) as refused:
        client(url).ask("GET", "/")
    assert str(refused.value) == golden


def test_a_query_is_written_as_servers_read_it(client: Callable[[str], HttpClient]) -> None:
    with saying([JSON]) as (url, heard):
        client(url).ask("GET", "/v2/groups?a=1", query={"embed": ["x y", "ä"], "force": None, "n": 2})
        assert heard[0][0].startswith(b"GET /v2/groups?a=1&embed=x+y&embed=%C3%A4&n=2 HTTP/1.1\r\n")


def test_a_redirect_may_lead_to_what_must_be_escaped(client: Callable[[str], HttpClient]) -> None:
    lead = "HTTP/1.1 302 Found\r\nLocation: /a b/%20ü?q=c d#part\r\nContent-Length: 0\r\n\r\n".encode()
    with saying([lead, JSON]) as (url, heard):
        assert client(url).ask("GET", "/x").ok
        assert heard[0][1].startswith(b"GET /a%20b/%20%C3%BC?q=c%20d HTTP/1.1\r\n")


@pytest.mark.parametrize("charset", ["", "; charset=latin-1", "; charset=no-such"])
def test_text_is_read_in_the_charset_it_names(client: Callable[[str], HttpClient], charset: str) -> None:
    text = "für".encode("latin-1" if "latin" in charset else "utf-8")
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain{charset}\r\nContent-Length: {len(text)}\r\n\r\n"
    with saying([head.encode() + text]) as (url, _):
        assert client(url).ask("GET", "/x").text == "für"


def test_a_host_that_is_no_name_is_said(client: Callable[[str], HttpClient]) -> None:
    with pytest.raises(Unavailable, match="no agent answers"):
        client(f"http://{'a' * 70}..example").ask("GET", "/x")


def test_a_server_that_does_not_answer_in_time_is_said(client: Callable[[str], HttpClient], golden: Golden) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        one = HttpClient(f"http://127.0.0.1:{mute.getsockname()[1]}", what="agent", access=Access(read_s=0.2))
        with pytest.raises(Unavailable) as refused:
            one.ask("GET", "/x")
        assert str(refused.value) == golden
        one.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("secure", [True, False])
def test_a_proxy_may_speak_tls_itself(authority: Authority, tmp_path: Path, secure: bool) -> None:
    context = authority.server_context(*authority.issue("both"))
    with scripted_server(context if secure else None) as server, proxy(context) as between:
        server.on("POST", "/x", {"done": True})
        login = between.url.replace("://", "://joe:pw@")
        client = HttpClient(server.url, what="agent", access=Access(ca=authority.certificate, proxy=login))
        assert client.ask("POST", "/x", body={"a": 1}).json() == {"done": True}
        client.close()
        assert between.logins == [proxy_login(login)["Proxy-Authorization"]]
        assert [request.body for request in server.requests] == [{"a": 1}]


def test_threads_share_a_client(server: ScriptedServer) -> None:
    server.on("GET", "/x", {"done": True})
    transport = Transport(Access())
    answers: list[object] = []

    def ask() -> None:
        for _ in range(20):
            asked = transport.request(
                "GET", f"{server.url}/x", query=None, headers={}, data=None, read_s=20.0, proxy=None, stream=False
            )
            answers.append(asked.json())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert answers == [{"done": True}] * 80


def test_an_answer_that_ends_after_the_transport_is_closed_keeps_no_connection() -> None:
    with saying([JSON]) as (url, _):
        transport = Transport(Access())
        answer = transport.request(
            "GET", f"{url}/x", query=None, headers={}, data=None, read_s=20.0, proxy=None, stream=True
        )
        transport.close()
        answer.json()
        answer.close()
        assert not any(transport._idle.values())
