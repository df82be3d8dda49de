"""A process in a task's container, seen from our terminal: started there (exec), or the task's own (attach).

Source: Mesos' agent API, LAUNCH_NESTED_CONTAINER_SESSION, ATTACH_CONTAINER_INPUT, ATTACH_CONTAINER_OUTPUT,
WAIT_NESTED_CONTAINER. Two connections carry it: the agent's answer is what the process says, a request that never
ends is what is typed. A thread sends; the main thread, which gets the signals, writes what comes.
"""

from __future__ import annotations

import json
import os
import select
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from marathon_cli.clients import streams
from marathon_cli.connection.http import HttpClient
from marathon_cli.screen import terminal
from marathon_cli.screen.terminal import DetachKeys
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound
from mesos_gpu.mesos.clients import process_io

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
    answers = streams.Answers(agent, {"type": call[0], call[0].lower(): call[1]})
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
    answers = streams.Answers(agent, {"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": body})
    with ExitStack() as leaving:
        leaving.callback(answers.close)
        return End(None, detached=_connect(agent, container_id, answers, wish, feed=wish.interactive))


def _forget(agent: HttpClient, container_id: Mapping[str, Any]) -> None:
    """Have the agent forget a session, which it remembers until the task ends, else; nothing depends on it."""
    call = {"type": "REMOVE_NESTED_CONTAINER", "remove_nested_container": {"container_id": dict(container_id)}}

    def ask() -> None:
        try:
            streams.ask(agent, call)  # who may not remove containers is told so, and that is all
        except MesosGpuError:
            pass

    asking = threading.Thread(target=ask, name="forgetting", daemon=True)
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
    answers: streams.Answers,
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
        self, agent: HttpClient, container_id: Mapping[str, Any], wish: Wish, answers: streams.Answers, *, ours: bool
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
        feed: streams.Feed | None = None
        try:
            feed = streams.Feed(self._agent)
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

    def _send_all(self, feed: streams.Feed) -> None:
        if self._wish.tty:
            self._send_window(feed, redraw=True)
        reading = self._wish.interactive
        if not reading and not self._wish.tty:
            feed.send(process_io.typed(b""))
        while not self._leaving:
            sources: list[int | streams.Feed] = [self._woken, feed, *([STDIN] if reading else [])]
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

    def _pass_on(self, feed: streams.Feed) -> bool:
        """Send what was typed; return whether more may come."""
        data = os.read(STDIN, _PIECE)
        if not data:
            feed.send(process_io.typed(b""))
            return False
        passed, self.detached = self._keys.feed(data)
        if passed:
            feed.send(process_io.typed(passed))
        return True

    def _send_window(self, feed: streams.Feed, *, redraw: bool = False) -> None:
        size = terminal.window()
        if size is None:
            return
        if redraw:
            # A size that differs makes a program that is there already draw its screen again.
            feed.send(process_io.resized(size.rows + 1, size.columns))
        feed.send(process_io.resized(size.rows, size.columns))

    def _ask_why(self, feed: streams.Feed | None) -> None:
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
            status, body = streams.ask(self._agent, call)
            if status == 200:
                self._found = int(json.loads(body)["wait_nested_container"]["exit_status"])
        except (MesosGpuError, ValueError, LookupError, TypeError):
            pass  # None says that it is not known

    def status(self, patience_s: float) -> int | None:
        """Return the command's exit status, None when the agent does not tell."""
        self.join(patience_s)
        return None if self._found is None else process_io.exit_status(self._found)
