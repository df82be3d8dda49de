"""Agents and scheduler drivers show the master who they are: one session per try, `crammd5-authenticator-session(N)`.

Source: Mesos src/master/master.cpp (authenticate), src/authentication/cram_md5/authenticator.cpp.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.security.cram_md5 import ERROR, MECHANISM, MECHANISMS, Progress, authenticator
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
"""How long anybody may take from its request to its answer."""
MAX_SESSIONS = 1000
"""Conversations at a time; who begins more is told to come again."""
_PREFIX = "mesos.internal."


class Authenticators:
    """Who has authenticated, and the sessions of who is about to. `secrets_of` None: this master has no secrets."""

    def __init__(self, endpoint: Endpoint, secrets_of: Mapping[str, str] | None) -> None:
        self._endpoint, self._secrets = endpoint, secrets_of
        self._made = 0
        self._sessions: dict[str, _Session] = {}
        self.principals: dict[str, str] = {}
        """Principals by the pid of who has shown them."""

    def authenticate(self, message: Message) -> None:
        """Take an AuthenticateMessage: what was known of who sends it before is forgotten. Raises ProtocolError."""
        asking = Pid.parse(decode(message.name, message.body)["pid"])
        pid = str(asking)
        self._endpoint.link("master", asking)  # its end is told, and what it has shown is forgotten
        self.principals.pop(pid, None)
        if pid in self._sessions:
            self._sessions.pop(pid).end()
        if self._secrets is None or len(self._sessions) >= MAX_SESSIONS:
            why = "No authenticator loaded" if self._secrets is None else "too many are authenticating; try again"
            document = {"error": why}
            self._endpoint.send("master", message.sender, _PREFIX + ERROR, encode(_PREFIX + ERROR, document))
            return
        self._made += 1
        name = f"crammd5-authenticator-session({self._made})"
        self._sessions[pid] = _Session(self._endpoint, name, message.sender, self._secrets, self, pid)

    def under_way(self, pid: str) -> bool:
        """Return whether whoever is at `pid` is about to show who that is."""
        return pid in self._sessions

    def ended(self, pid: str, principal: str | None) -> None:
        """A session is over; with a principal, it went well."""
        self._sessions.pop(pid, None)
        if principal is not None:
            self.principals[pid] = principal

    def forget(self, pid: str) -> None:
        """The connection to a process broke: it authenticates again."""
        self.principals.pop(pid, None)

    def stop(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()


class _Session:
    """One conversation. It ends by itself after TIMEOUT_S."""

    def __init__(
        self, endpoint: Endpoint, name: str, to: Pid, secrets_of: Mapping[str, str], owner: Authenticators, pid: str
    ) -> None:
        self._endpoint, self._name, self._to = endpoint, name, to
        self._secrets, self._owner, self._pid = secrets_of, owner, pid
        self._progress = Progress.ASKED
        self._challenge = f"<{secrets.token_hex(16)}@{endpoint.pid(name).ip}>".encode()
        endpoint.spawn(name, self._on_message)
        self._timer = asyncio.get_running_loop().call_later(TIMEOUT_S, self._timed_out)
        self._send(MECHANISMS, {"mechanisms": [MECHANISM]})

    def end(self) -> None:
        """Take no more messages."""
        self._timer.cancel()
        self._endpoint.terminate(self._name)

    def _timed_out(self) -> None:
        log.warning("%s did not authenticate within %g s", self._pid, TIMEOUT_S)
        self.end()
        self._owner.ended(self._pid, None)

    def _on_message(self, message: Message) -> None:
        if message.sender != self._to:
            log.warning("ignoring %s from %s: it is not who asked to be authenticated", message.name, message.sender)
            return
        name = message.name.removeprefix(_PREFIX)
        try:
            document = decode(message.name, message.body)
        except ProtocolError as error:
            log.warning("ignoring a message from %s: %s", message.sender, error)
            return
        said = authenticator(self._progress, self._challenge, self._secrets, name, document)
        self._progress = said.progress
        if said.name is not None:
            self._send(said.name, said.document)
        if said.progress is Progress.STARTED:
            return
        self.end()
        if said.progress is Progress.DONE:
            log.info("%s is %s", self._pid, said.principal)
            self._owner.ended(self._pid, said.principal)
            return
        why = f"{said.principal!r} or its secret is wrong" if said.progress is Progress.REFUSED else said.why
        log.warning("%s did not authenticate: %s", self._pid, why)
        self._owner.ended(self._pid, None)

    def _send(self, name: str, document: Mapping[str, object]) -> None:
        self._endpoint.send(self._name, self._to, _PREFIX + name, encode(_PREFIX + name, document))
