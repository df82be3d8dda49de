"""Tickets are good once, soon and for one user; of a session both halves are needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.mesos.security.browser_logins import (
    MOST_SESSIONS,
    MOST_TICKETS,
    SESSION_S,
    TICKET_S,
    BrowserLogins,
    Session,
)

ME, OTHER = 1000, 1001


def let_in(logins: BrowserLogins, now_s: float = 0.0) -> None:
    logins.issue("ticket", uid=ME, mesos="Basic x", now_s=now_s)
    assert logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=now_s)


def test_a_ticket_is_exchanged_once() -> None:
    logins = BrowserLogins()
    let_in(logins)
    assert logins.session("c", "k", 1.0) == Session("Basic x", SESSION_S)
    assert not logins.redeem("ticket", uid=ME, cookie="d", key="l", now_s=1.0)
    assert logins.session("d", "l", 1.0) is None


def test_a_ticket_that_another_user_shows_is_refused_and_as_good_as_before() -> None:
    logins = BrowserLogins()
    logins.issue("ticket", uid=ME, mesos=None, now_s=0.0)
    for uid in (OTHER, None):
        assert not logins.redeem("ticket", uid=uid, cookie="c", key="k", now_s=1.0)
    assert logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=2.0)


def test_a_ticket_does_not_wait_for_ever_and_is_gone_then() -> None:
    logins = BrowserLogins()
    logins.issue("ticket", uid=ME, mesos=None, now_s=0.0)
    assert not logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=TICKET_S)
    assert not logins.redeem("ticket", uid=ME, cookie="c", key="k", now_s=0.0)


def test_a_session_needs_both_halves_and_ends() -> None:
    logins = BrowserLogins()
    let_in(logins)
    for cookie, key in (("c", None), (None, "k"), ("c", "x"), ("x", "k"), ("k", "c"), ("", ""), ("ck", "")):
        assert logins.session(cookie, key, 1.0) is None
        logins.end(cookie, key)
    assert logins.session("c", "k", SESSION_S - 1.0) is not None
    assert logins.session("c", "k", SESSION_S) is None
    logins.end("c", "k")
    assert logins.session("c", "k", 1.0) is None


def test_what_is_secret_is_not_shown() -> None:
    logins = BrowserLogins()
    let_in(logins)
    assert "Basic" not in repr(logins.session("c", "k", 1.0))
    assert not [value for value in vars(logins).values() if "ticket" in repr(value) or "'c'" in repr(value)]


@given(st.lists(st.tuples(st.sampled_from(["issue", "redeem", "steal"]), st.integers(0, 5), st.integers(0, 80))))
def test_nobody_is_let_in_but_by_a_ticket_of_his_that_was_not_used(history: list[tuple[str, int, int]]) -> None:
    logins, good, now_s = BrowserLogins(), dict[str, float](), 0.0
    for what, number, later in history:
        now_s += later
        token = f"t{number}"
        if what == "issue":
            logins.issue(token, uid=ME, mesos=None, now_s=now_s)
            good[token] = now_s + TICKET_S
            continue
        uid = ME if what == "redeem" else OTHER
        until_s = good.pop(token, 0.0) if uid == ME else 0.0
        assert logins.redeem(token, uid=uid, cookie="c", key="k", now_s=now_s) == (now_s < until_s)


def test_so_many_are_kept_and_no_more() -> None:
    logins = BrowserLogins()
    for number in range(MOST_TICKETS + 1):
        logins.issue(f"t{number}", uid=ME, mesos=None, now_s=0.0)
    assert not logins.redeem("t0", uid=ME, cookie="c", key="k", now_s=0.0)
    assert logins.redeem("t1", uid=ME, cookie="c1", key="k", now_s=0.0)
    for number in range(2, 2 + MOST_SESSIONS):
        logins.issue("t", uid=ME, mesos=None, now_s=0.0)
        assert logins.redeem("t", uid=ME, cookie=f"c{number}", key="k", now_s=0.0)
    assert logins.session("c1", "k", 0.0) is None
    assert logins.session("c2", "k", 0.0) is not None
