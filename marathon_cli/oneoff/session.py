"""A process in a task's container, seen from our terminal: started there (exec), or the task's own (attach).

Source: Mesos' agent API, LAUNCH_NESTED_CONTAINER_SESSION, ATTACH_CONTAINER_INPUT, ATTACH_CONTAINER_OUTPUT,
WAIT_NESTED_CONTAINER. Two connections carry it: the agent's answer is what the process says, a request that never
ends is what is typed. A thread sends; the main thread, which gets the signals, writes what comes.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import select
import socket
import ssl
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from marathon_cli.connection.access import NoAnswer, stranger
from marathon_cli.connection.http import HttpClient
from marathon_cli.screen import terminal
from marathon_cli.screen.terminal import DetachKeys
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound, Refused, Unavailable
from mesos_gpu.mesos.clients import process_io
from mesos_gpu.mesos.recordio import RecordDecoder

PATH = "/api/v1"
RECORDIO, JSON = "application/recordio", "application/json"
_RECEIVED = 64 * 1024
_LAST_WORDS_S = 2.0


class Answers:
    """A call whose answer is a stream of records. Made when the agent has accepted the call.

    Raises Unavailable when the agent cannot be reached, NotFound and Refused when it says no.
    """

    def __init__(self, agent: HttpClient, call: Mapping[str, Any]) -> None:
        self._agent, self._left = agent, False
        headers = {"Content-Type": JSON, "Accept": RECORDIO, "Message-Accept": JSON}
        self._answer = agent.records(PATH, headers=headers, data=json.dumps(call).encode())
        if self._answer.status_code != 200:
            with self._answer:
                raise _refusal(agent, self._answer.status_code, self._answer.reason, self._body())

    def records(self) -> Iterator[bytes]:
        """Yield the records as they come, until the agent ends them or `leave` is called. Raises Unavailable."""
        decoder = RecordDecoder()
        try:
            for chunk in self._answer.pieces():
                yield from decoder.feed(chunk)
        except (NoAnswer, ValueError) as error:
            if not self._left:
                raise Unavailable(f"the connection to the agent {self._agent.url} broke: {error}") from None
        if decoder.pending and not self._left:
            raise Unavailable(f"the connection to the agent {self._agent.url} broke in the midst of a record")

    def leave(self) -> None:
        """End the call, from any thread: whoever waits for records gets no more."""
        self._left = True
        self._answer.cut()

    def close(self) -> None:
        """Close the connection. With a session's, the agent ends the session."""
        self._left = True
        self._answer.close()

    def _body(self) -> bytes:
        try:
            return next(self._answer.pieces(), b"")
        except NoAnswer:
            return b""


class Feed:
    """A call whose request is a stream of records, sent when they are there; for one thread at a time."""

    def __init__(self, agent: HttpClient) -> None:
        self._agent = agent
        headers = {"Content-Type": RECORDIO, "Message-Content-Type": JSON, "Transfer-Encoding": "chunked"}
        self._connection = agent.begin(PATH, headers=headers)
        # http.client lets go of its socket when the answer says that it is the last one.
        self._socket: socket.socket = self._connection.sock

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the agent says something (`look` then)."""
        return self._socket.fileno()

    def send(self, record: bytes) -> None:
        """Send a record. Raises OSError when the agent no longer listens; `look` may tell why."""
        self._socket.sendall(b"%x\r\n%b\r\n" % (len(record), record))

    def look(self) -> bool:
        """Return whether the agent has ended the call by itself; raise NotFound or Refused when it refused it."""
        said = self._glance()
        if said is None:
            return False
        if said.startswith(b"HTTP/"):
            response = http.client.HTTPResponse(_Bytes(said))  # type: ignore[arg-type]
            response.begin()
            if response.status != 200:
                raise _refusal(self._agent, response.status, response.reason, response.read(_RECEIVED))
        return True

    def end(self) -> None:
        """Say that no more records follow, and close; an agent that is gone by now has missed nothing."""
        try:
            self._socket.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        self._connection.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._connection.close()

    def _glance(self) -> bytes | None:
        """Return the whole answer when there is one (nothing when the connection ended without), else None.

        A readable TLS socket need not have an answer: the peer may have sent tickets.
        """
        said = b""
        try:
            self._socket.setblocking(False)
            said = self._socket.recv(_RECEIVED)
            self._socket.settimeout(_LAST_WORDS_S)
            while said and not _whole(said) and (more := self._socket.recv(_RECEIVED)):
                said += more
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            pass  # what was said before the connection broke may be a whole answer
        finally:
            self._socket.settimeout(None)
        return said


def ask(agent: HttpClient, call: Mapping[str, Any]) -> tuple[int, bytes]:
    """Make a call and wait for its answer without end; return status and body. Raises Unavailable."""
    headers = {"Content-Type": JSON, "Accept": JSON}
    with agent.records(PATH, headers=headers, data=json.dumps(call).encode(), read_s=None) as answer:
        try:
            return answer.status_code, answer.content
        except NoAnswer as error:
            raise Unavailable(f"the connection to the agent {agent.url} broke: {error}") from None


def _refusal(agent: HttpClient, status: int, reason: str, content: bytes) -> NotFound | Refused | Unavailable:
    body = content.decode("utf-8", "replace").strip()
    words = body or reason
    if status == 404:
        return NotFound(words)
    if status == 401:
        said = f" ({body})" if body else ""
        return Refused(f"the agent {agent.url} {stranger(agent.access)}{said}", status=status, body=body)
    if status == 403:
        return Refused(f"the agent {agent.url} does not let us do this: {words}", status=status, body=body)
    if status == 503:
        return Unavailable(f"the agent {agent.url} cannot answer now: {words}")
    return Refused(f"the agent {agent.url} refuses this: {words}", status=status, body=body)


def _whole(said: bytes) -> bool:
    """Return whether an answer is complete, as far as its head says."""
    head, gap, body = said.partition(b"\r\n\r\n")
    if not gap:
        return False
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


class _Bytes:
    """What http.client takes for a socket that has received these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


HEARTBEAT_S = 30.0
WAIT_S = 15.0
"""How long the agent may take to say how a command ended, when it has said its last."""
FORGET_S = 3.0
"""How long it may take to forget the command."""
STDIN = 0
_PIECE = 32 * 1024


@dataclass(frozen=True, slots=True)
class Wish:
    """How our terminal is to be connected: what is typed is passed on; a terminal there; the keys that detach."""

    interactive: bool = False
    tty: bool = False
    detach_keys: bytes = b""

    def check(self) -> None:
        """Raise BadInput when our side cannot do it."""
        if self.interactive and self.tty and not terminal.is_terminal(STDIN):
            raise BadInput("-t needs a terminal to type in, and standard input is none; leave -t out to pipe into it")


@dataclass(frozen=True, slots=True)
class End:
    """How a session ended: with a status, if it is known, or because we detached."""

    status: int | None
    detached: bool = False


def execute(
    agent: HttpClient,
    parent: Mapping[str, Any],
    argv: Sequence[str],
    wish: Wish,
    *,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> End:
    """Run a command in a container, with its GPUs, mounts and limits, until the command or we end; it ends with us.

    `status` is as a shell has it: 128 and the number for a signal. Raises NotFound when the container is gone, Refused
    when the agent cannot start the command, Unavailable when it is lost.
    """
    wish.check()
    container_id = {"value": str(uuid.uuid4()), "parent": dict(parent)}
    call = _launch(container_id, argv, wish, user, dict(environment or {}))
    answers = Answers(agent, {"type": call[0], call[0].lower(): call[1]})
    with ExitStack() as leaving:
        leaving.callback(answers.close)
        waiting = _Waiting(agent, container_id)
        waiting.start()
        detached = _connect(agent, container_id, answers, wish, feed=True, ours=True)
        if detached:
            return End(None, detached=True)
        # The answer is closed only when the status is known: an agent ends the session of who leaves.
        status = waiting.status(WAIT_S)
    _forget(agent, container_id)
    return End(status)


def attach(agent: HttpClient, container_id: Mapping[str, Any], wish: Wish) -> End:
    """Show what a container's own process says, and pass on what is typed, until it ends or we detach.

    Raises NotFound when the container is gone, Refused when it has no terminal or somebody else is typing.
    """
    wish.check()
    body = {"container_id": dict(container_id)}
    answers = Answers(agent, {"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": body})
    with ExitStack() as leaving:
        leaving.callback(answers.close)
        return End(None, detached=_connect(agent, container_id, answers, wish, feed=wish.interactive))


def _forget(agent: HttpClient, container_id: Mapping[str, Any]) -> None:
    """Have the agent forget a session, which it remembers until the task ends, else; nothing depends on it."""
    call = {"type": "REMOVE_NESTED_CONTAINER", "remove_nested_container": {"container_id": dict(container_id)}}

    def remove() -> None:
        try:
            ask(agent, call)  # who may not remove containers is told so, and that is all
        except MesosGpuError:
            pass

    asking = threading.Thread(target=remove, name="forgetting", daemon=True)
    asking.start()
    asking.join(FORGET_S)


def _launch(
    container_id: Mapping[str, Any], argv: Sequence[str], wish: Wish, user: str | None, environment: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    command: dict[str, Any] = {"shell": False, "value": argv[0], "arguments": list(argv)}
    body: dict[str, Any] = {"container_id": container_id, "command": command}
    if user is not None:
        command["user"] = user
    if wish.tty:
        size = terminal.window()
        info = {} if size is None else {"window_size": {"rows": size.rows, "columns": size.columns}}
        body["container"] = {"type": "MESOS", "tty_info": info}
        # A program there draws for the terminal that we have here.
        environment.setdefault("TERM", os.environ.get("TERM") or "xterm")
    if environment:
        command["environment"] = {
            "variables": [{"name": name, "value": value, "type": "VALUE"} for name, value in environment.items()]
        }
    return "LAUNCH_NESTED_CONTAINER_SESSION", body


def _connect(
    agent: HttpClient,
    container_id: Mapping[str, Any],
    answers: Answers,
    wish: Wish,
    *,
    feed: bool,
    ours: bool = False,
) -> bool:
    """Carry bytes both ways until the process, perhaps one of `ours`, has said its last; return whether we detached."""
    with ExitStack() as leaving:
        typist = _Typist(agent, container_id, wish, answers, ours=ours) if feed or wish.tty else None
        # Only who types there needs every key; else Ctrl-C is for us.
        if wish.tty and wish.interactive:
            leaving.enter_context(terminal.raw(STDIN))
        if typist is not None:
            leaving.callback(typist.close)
            if wish.tty:
                leaving.enter_context(terminal.on_resize(typist.resized))
            typist.start()
        for record in answers.records():
            said = process_io.output_of(record)
            if said is not None and said.data:
                terminal.flush_to(said.data, stderr=said.stderr)
        if typist is not None:
            typist.close()
            if typist.failure is not None:
                raise typist.failure
    return typist is not None and typist.detached


class _Typist(threading.Thread):
    """Sends what is typed, the size of our window, and heartbeats; looks for the keys that detach."""

    def __init__(
        self, agent: HttpClient, container_id: Mapping[str, Any], wish: Wish, answers: Answers, *, ours: bool
    ) -> None:
        super().__init__(name="typist", daemon=True)
        self._ours = ours
        self._agent, self._container_id, self._wish, self._answers = agent, container_id, wish, answers
        self._keys = DetachKeys(wish.detach_keys if wish.tty else b"")
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._leaving = False
        self.detached = False
        self.failure: MesosGpuError | None = None

    def resized(self) -> None:
        """Have the size of our window sent; fit for a signal handler."""
        self._wake(b"w")

    def close(self) -> None:
        """End it and wait for its end."""
        if self._woken < 0:
            return
        self._leaving = True
        self._wake(b"q")
        if self.is_alive():
            self.join(WAIT_S)
        os.close(self._woken)
        os.close(self._waker)
        self._woken = -1

    def run(self) -> None:
        """Send until the process or we have enough."""
        feed: Feed | None = None
        try:
            feed = Feed(self._agent)
            feed.send(process_io.feeding(self._container_id))
            self._send_all(feed)
            feed.end()
        except MesosGpuError as error:
            self._fail(error)
        except OSError:
            # The agent reads no more: the process has ended, or it said why before it hung up.
            self._ask_why(feed)
        finally:
            if feed is not None:
                feed.close()

    def _send_all(self, feed: Feed) -> None:
        if self._wish.tty:
            self._send_window(feed, redraw=True)
        reading = self._wish.interactive
        if not reading and not self._wish.tty:
            feed.send(process_io.typed(b""))
        while not self._leaving:
            sources: list[int | Feed] = [self._woken, feed, *([STDIN] if reading else [])]
            ready, _, _ = select.select(sources, [], [], HEARTBEAT_S)
            if not ready:
                feed.send(process_io.heartbeat(HEARTBEAT_S))
            if self._woken in ready and b"w" in os.read(self._woken, 64):
                self._send_window(feed)
            if feed in ready and feed.look():
                return
            if STDIN in ready:
                reading = self._pass_on(feed)
                if self.detached:
                    self._answers.leave()
                    return

    def _pass_on(self, feed: Feed) -> bool:
        """Send what was typed; return whether more may come."""
        data = os.read(STDIN, _PIECE)
        if not data:
            feed.send(process_io.typed(b""))
            return False
        passed, self.detached = self._keys.feed(data)
        if passed:
            feed.send(process_io.typed(passed))
        return True

    def _send_window(self, feed: Feed, *, redraw: bool = False) -> None:
        size = terminal.window()
        if size is None:
            return
        if redraw:
            # A size that differs makes a program that is there already draw its screen again.
            feed.send(process_io.resized(size.rows + 1, size.columns))
        feed.send(process_io.resized(size.rows, size.columns))

    def _ask_why(self, feed: Feed | None) -> None:
        try:
            if feed is not None:
                feed.look()
        except MesosGpuError as error:
            self._fail(error)
        except OSError:
            pass

    def _fail(self, error: MesosGpuError) -> None:
        if isinstance(error, NotFound) or (self._ours and process_io.NO_INPUT in str(error)):
            return  # a short command has ended before its input was connected; its output says how
        self.failure = error
        self._answers.leave()

    def _wake(self, what: bytes) -> None:
        try:
            os.write(self._waker, what)
        except OSError:
            pass  # it is full, so it is awake; or closed, so nobody sleeps


class _Waiting(threading.Thread):
    """Waits for the status of a command while it runs; afterwards an agent may have forgotten it."""

    def __init__(self, agent: HttpClient, container_id: Mapping[str, Any]) -> None:
        super().__init__(name="waiting", daemon=True)
        self._agent, self._container_id = agent, container_id
        self._found: int | None = None

    def run(self) -> None:
        """Ask, and keep what the agent says."""
        call = {"type": "WAIT_NESTED_CONTAINER", "wait_nested_container": {"container_id": dict(self._container_id)}}
        try:
            status, body = ask(self._agent, call)
            if status == 200:
                self._found = int(json.loads(body)["wait_nested_container"]["exit_status"])
        except (MesosGpuError, ValueError, LookupError, TypeError):
            pass  # None says that it is not known

    def status(self, patience_s: float) -> int | None:
        """Return the command's exit status, None when the agent does not tell."""
        self.join(patience_s)
        return None if self._found is None else process_io.exit_status(self._found)
