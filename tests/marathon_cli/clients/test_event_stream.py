"""What a Marathon tells by itself is heard as it comes; one that tells nothing is only asked less often."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from marathon_cli.clients.event_stream import KINDS, EventStream
from marathon_cli.clients.marathon import Marathon
from tests.support.marathon_cli.scripted_server import Answer, ScriptedServer

EVENTS = (
    {"eventType": "status_update_event", "appId": "/other", "taskId": "other.1"},
    {"eventType": "status_update_event", "appId": "/mine", "taskId": "mine.1"},
)


class _Teller(BaseHTTPRequestHandler):
    """Tells two events, and what is no event, and nothing more."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        lines = [b"data: {no json", b"data: [1]", *(b"data: " + json.dumps(event).encode() for event in EVENTS)]
        for line in lines:
            self._chunk(b"event: x\r\n" + line + b"\r\n\r\n")
        self.server.over.wait(10)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Teller)
        self.asked: list[str] = []
        self.over = threading.Event()


@pytest.fixture
def teller() -> Iterator[_Server]:
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def marathon_at(url: str) -> Marathon:
    return Marathon(url, named_by="a test")


def test_what_concerns_us_is_heard_at_once_and_the_rest_is_not(teller: _Server) -> None:
    marathon = marathon_at(f"http://127.0.0.1:{teller.server_address[1]}")
    with EventStream(marathon, lambda event: event["appId"] == "/mine") as news:
        assert news.ready()
        begun = time.monotonic()
        assert news.wait(30) == [EVENTS[1]]
        assert time.monotonic() - begun < 10
        assert news.wait(0) == []
    assert not news.live
    assert teller.asked == ["/v2/events?" + "&".join(f"event_type={kind}" for kind in KINDS)]
    marathon.close()


def test_a_marathon_that_goes_away_is_waited_for_without_news(teller: _Server) -> None:
    marathon = marathon_at(f"http://127.0.0.1:{teller.server_address[1]}")
    with EventStream(marathon, lambda _: True) as news:
        assert len(news.wait(30)) >= 1
        teller.over.set()
        news._thread.join(10)
        while news.wait(0):
            pass
        assert not news.live
        news.pause(0.01)
    marathon.close()


@pytest.mark.parametrize("status", [404, 401, 503])
def test_one_that_tells_nothing_is_no_error(marathon: ScriptedServer, status: int) -> None:
    marathon.on("GET", "/v2/events", Answer(status, {"message": "no"}))
    client = marathon_at(marathon.url)
    with EventStream(client, lambda _: True) as news:
        assert not news.ready()
        assert news.wait(0.01) == []
    client.close()


def test_what_is_not_there_is_no_error() -> None:
    client = marathon_at("http://127.0.0.1:1")
    with EventStream(client, lambda _: True) as news:
        assert not news.ready()
