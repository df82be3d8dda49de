"""How a browser is let in without a password: a ticket that is used once, and the session that it is exchanged for.

A ticket travels in a URL, so it is short-lived and for one user of the machine: whoever else reads it, in a list of
processes or a history, cannot use it. A session is two halves that travel apart: browsers send a cookie to every port
of a host, to programs of other users too, and what scripts of a page can read, scripts that got into it can. Neither
half is of use alone. Pure: tokens and the time come in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

TICKET_S = 120.0
"""How long a ticket may wait for its browser."""
SESSION_S = 12 * 3600.0
MOST_TICKETS, MOST_SESSIONS = 64, 512
"""How many are kept; the oldest make room."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a ticket is good for: a user of this machine, and who he is to Mesos (an Authorization header, or None)."""

    uid: int
    mesos: str | None = field(repr=False)
    until_s: float


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who was let in; `mesos` is his Authorization header for master and agents, None where he has none."""

    mesos: str | None = field(repr=False)
    until_s: float


class BrowserLogins:
    """The tickets and sessions of one server; tokens are kept as hashes. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._tickets: dict[str, Ticket] = {}
        self._sessions: dict[str, Session] = {}

    def issue(self, token: str, *, uid: int, mesos: str | None, now_s: float) -> None:
        """Make a ticket of `token` for the user `uid`."""
        self._tickets = {key: one for key, one in self._tickets.items() if now_s < one.until_s}
        self._tickets[_hash(token)] = Ticket(uid, mesos, now_s + TICKET_S)
        _shorten(self._tickets, MOST_TICKETS)

    def redeem(self, token: str, *, uid: int | None, cookie: str, key: str, now_s: float) -> bool:
        """Exchange a ticket for a session with these two halves; return whether it was good.

        `uid` is whose program asks, None where nobody knows. A ticket that another user shows is as good as before:
        he could otherwise keep its owner out.
        """
        ticket = self._tickets.get(_hash(token))
        if ticket is None or uid != ticket.uid:
            return False
        del self._tickets[_hash(token)]
        if now_s >= ticket.until_s:
            return False
        self._sessions = {name: one for name, one in self._sessions.items() if now_s < one.until_s}
        self._sessions[_halves(cookie, key)] = Session(ticket.mesos, now_s + SESSION_S)
        _shorten(self._sessions, MOST_SESSIONS)
        return True

    def session(self, cookie: str | None, key: str | None, now_s: float) -> Session | None:
        """Return whose session has these halves; None when there is none, or its time is over."""
        found = self._sessions.get(_halves(cookie, key)) if cookie and key else None
        return found if found is not None and now_s < found.until_s else None

    def end(self, cookie: str | None, key: str | None) -> None:
        """Forget a session; one that is not there is no error."""
        if cookie and key:
            self._sessions.pop(_halves(cookie, key), None)


def _shorten(kept: dict[str, Ticket] | dict[str, Session], most: int) -> None:
    while len(kept) > most:
        kept.pop(next(iter(kept)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _halves(cookie: str, key: str) -> str:
    return _hash(_hash(cookie) + _hash(key))
