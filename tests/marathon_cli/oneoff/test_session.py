"""Sessions against an agent that says what a real one was recorded to say, or what it should not."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from marathon_cli.connection.access import Access
from marathon_cli.connection.http import HttpClient
from marathon_cli.oneoff.session import End, Wish, attach, execute
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound, ProtocolError, Refused, Unavailable
from mesos_gpu.mesos.clients.process_io import exit_status
from mesos_gpu.mesos.recordio import RecordDecoder, encode
from tests.support import places
from tests.support.golden import Golden
from tests.support.marathon_cli.proxy import proxy
from tests.support.tls import Authority

RECORDED = places.RECORDED / "nested-containers.json"
PARENT = {"value": "c0b02504", "parent": {"value": "93b5e9f7"}}


def recorded_session() -> tuple[dict[str, Any], bytes]:
    """Return the headers and the body, chunks and all, with which a real agent answered a session."""
    for item in json.loads(RECORDED.read_text()):
        body = item["request"]["body"]
        if isinstance(body, dict) and body.get("type") == "LAUNCH_NESTED_CONTAINER_SESSION":
            head, _, rest = item["raw_response"].partition("\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
            return headers, rest.encode()
    raise LookupError("no session was recorded")


def chunked(*records: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(encode(r)), encode(r)) for r in records) + b"0\r\n\r\n"


def said(stream: str, text: str) -> bytes:
    return json.dumps({"type": "DATA", "data": {"type": stream, "data": text}}).encode()


@dataclass
class ScriptedAgent:
    """What it answers to each call, and what it was asked; `input_status` answers input that is attached, at once."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    wait: tuple[int, bytes] = (200, b'{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{"exit_status":768}}')
    removal: int = 200
    input_status: int | None = None
    hangs: bool = False
    calls: list[dict[str, Any]] = field(default_factory=list)
    logins: set[str | None] = field(default_factory=set)
    typed: list[dict[str, Any]] = field(default_factory=list)
    fed: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    agent: ScriptedAgent

    def do_POST(self) -> None:
        self.close_connection = True
        self.agent.logins.add(self.headers.get("Authorization"))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self._be_fed()
            return
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.agent.calls.append(call)
        if call["type"] == "WAIT_NESTED_CONTAINER":
            self._answer(*self.agent.wait)
        elif call["type"] == "REMOVE_NESTED_CONTAINER":
            self._answer(self.agent.removal, b"")
        elif self.agent.status != 200:
            self._answer(self.agent.status, self.agent.body)
        else:
            self._stream()

    def _stream(self) -> None:
        headers, recorded = recorded_session()
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.agent.hangs:
            self.agent.over.wait(60)
        else:
            self.agent.fed.wait(60)  # a quick command ends before its input is connected; not in these tests
        self.wfile.write(self.agent.body or recorded)

    def _be_fed(self) -> None:
        if self.agent.input_status is not None:
            self._answer(self.agent.input_status, b"Multiple input connections are not allowed")
            self.wfile.flush()
            self.agent.fed.set()
            self.agent.over.wait(60)
            return
        decoder = RecordDecoder()
        while size := int(self.rfile.readline(), 16):
            for record in decoder.feed(self.rfile.read(size)):
                self.agent.typed.append(json.loads(record)["attach_container_input"])
            self.rfile.readline()
            if len(self.agent.typed) > 1:
                self.agent.fed.set()
        self.agent.fed.set()
        self._answer(200, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up while it is answered is what these tests are about."""


@contextmanager
def scripted_agent(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedAgent]:
    made = ScriptedAgent()
    server = Server(("127.0.0.1", 0), type("Handler", (Handler,), {"agent": made}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    made.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        made.fed.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def agent() -> Iterator[ScriptedAgent]:
    with scripted_agent() as made:
        yield made


def run(agent: ScriptedAgent, access: Access | None = None, **more: Any) -> End:
    client = HttpClient(agent.url, what="Mesos agent", access=access)
    return execute(client, PARENT, ["sh", "-c", "echo out"], Wish(), **more)


def test_a_recorded_session_is_understood(agent: ScriptedAgent, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(agent, user="nobody", environment={"A": "b"}) == End(3)
    assert capfdbinary.readouterr() == (b"out\n", b"err\n")
    launch = next(c for c in agent.calls if c["type"] == "LAUNCH_NESTED_CONTAINER_SESSION")
    asked = launch["launch_nested_container_session"]
    assert asked["container_id"]["parent"] == PARENT
    assert asked["command"] == {
        "shell": False,
        "value": "sh",
        "arguments": ["sh", "-c", "echo out"],
        "user": "nobody",
        "environment": {"variables": [{"name": "A", "value": "b", "type": "VALUE"}]},
    }
    wait = next(c for c in agent.calls if c["type"] == "WAIT_NESTED_CONTAINER")
    assert wait["wait_nested_container"]["container_id"] == asked["container_id"]
    remove = agent.calls[-1]
    assert remove["type"] == "REMOVE_NESTED_CONTAINER", "an agent remembers sessions for as long as the task runs"
    assert remove["remove_nested_container"]["container_id"] == asked["container_id"]
    # Without -i the command is told at once that no input comes.
    assert agent.typed[0] == {"type": "CONTAINER_ID", "container_id": asked["container_id"]}
    assert agent.typed[1]["process_io"]["data"] == {"type": "STDIN", "data": ""}


def test_who_may_not_remove_containers_is_told_how_the_command_ended_all_the_same(agent: ScriptedAgent) -> None:
    agent.removal = 403
    assert run(agent) == End(3)
    assert agent.calls[-1]["type"] == "REMOVE_NESTED_CONTAINER"


def test_sessions_go_over_tls_and_through_a_proxy_with_credentials(tmp_path: Path, golden: Golden) -> None:
    authority = Authority(tmp_path)
    access = Access(ca=authority.certificate, token="t")
    with scripted_agent(authority.server_context(*authority.issue("server"))) as agent:
        assert run(agent, access) == End(3)
        with pytest.raises(Unavailable) as refused:
            run(agent)
        assert str(refused.value) == golden
        assert agent.logins == {"token=t"}
    for tls in (authority.server_context(*authority.issue("server")), None):
        with proxy() as between, scripted_agent(tls) as agent:
            assert run(agent, Access(ca=authority.certificate, proxy=between.url)) == End(3)
            assert set(between.seen) == {f"CONNECT {agent.url.rpartition('/')[2]}"}


@pytest.mark.parametrize("wait", [(404, b"no such container"), (200, b"{}"), (200, b"nonsense"), (500, b"")])
def test_a_status_that_the_agent_does_not_tell_is_not_made_up(agent: ScriptedAgent, wait: tuple[int, bytes]) -> None:
    agent.wait = wait
    assert run(agent) == End(None)


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, Refused), (401, Refused), (403, Refused), (404, NotFound), (500, Refused), (503, Unavailable)],
)
def test_a_refusal_is_told_in_the_agents_words(agent: ScriptedAgent, status: int, error: type[MesosGpuError]) -> None:
    agent.status, agent.body = status, b"the agent's own words"
    with pytest.raises(error, match="the agent's own words"):
        run(agent)


def test_input_that_the_agent_refuses_ends_the_session_with_the_reason(agent: ScriptedAgent) -> None:
    agent.input_status, agent.hangs = 409, True
    with pytest.raises(Refused, match="Multiple input connections") as refused:
        run(agent)
    assert refused.value.status == 409


def test_a_quick_command_whose_input_comes_too_late_is_fine(agent: ScriptedAgent) -> None:
    agent.input_status = 404
    assert run(agent) == End(3)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (chunked(said("STDOUT", "b3V0Cg=="))[:-5], Unavailable),
        (b"5\r\n100\n{\r\n0\r\n\r\n", Unavailable),
        (b"4\r\nabc\n\r\n0\r\n\r\n", ProtocolError),
        (chunked(b"[]"), ProtocolError),
        (b"zz\r\n", Unavailable),
    ],
)
def test_an_answer_that_breaks_off_or_is_none_is_said(
    agent: ScriptedAgent, body: bytes, error: type[MesosGpuError]
) -> None:
    agent.body = body
    with pytest.raises(error):
        run(agent)


def test_a_container_without_a_switchboard_is_refused_as_recorded(agent: ScriptedAgent) -> None:
    agent.status, agent.body = 500, b"I/O switchboard server was disabled for this container"
    with pytest.raises(Refused, match="switchboard"):
        attach(HttpClient(agent.url, what="Mesos agent"), PARENT, Wish())


def test_an_agent_that_is_not_there_is_said(golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        execute(HttpClient("http://127.0.0.1:1", what="Mesos agent"), PARENT, ["true"], Wish())
    assert str(refused.value) == golden


def test_a_terminal_that_is_none_is_refused_before_anything_is_asked(agent: ScriptedAgent, golden: Golden) -> None:
    client = HttpClient(agent.url, what="Mesos agent")
    with pytest.raises(BadInput) as refused:
        execute(client, PARENT, ["sh"], Wish(interactive=True, tty=True))
    assert str(refused.value) == golden
    assert agent.calls == []


@pytest.mark.parametrize(("wait", "status"), [(0, 0), (768, 3), (256, 1), (9, 137), (15 | 0x80, 143), (65280, 255)])
def test_a_wait_status_becomes_a_shells_number(wait: int, status: int) -> None:
    assert exit_status(wait) == status
