"""Registration: the full product of standings and causes, and the back-off."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.decisions.registration import TABLE, Cause, Registration, Standing, Todo, answered_with, step

PAUSE, REGISTER, RESUME = Todo.PAUSE_UPDATES, Todo.LINK_AND_REGISTER, Todo.RESUME_UPDATES
ALONE, TRYING, REGISTERED = Standing.ALONE, Standing.TRYING, Standing.REGISTERED

# standing: {cause: (standing after, what to do)}; what is not named changes nothing.
EXPECTED = {
    ALONE: {Cause.DETECTED: (TRYING, (PAUSE,))},
    TRYING: {
        Cause.DETECTED: (TRYING, (PAUSE,)),
        Cause.NONE_LEADS: (ALONE, (PAUSE,)),
        Cause.TRY_DUE: (TRYING, (REGISTER,)),
        Cause.ANSWERED: (REGISTERED, (RESUME,)),
    },
    REGISTERED: {
        Cause.DETECTED: (TRYING, (PAUSE,)),
        Cause.NONE_LEADS: (ALONE, (PAUSE,)),
        Cause.ANSWERED: (REGISTERED, (RESUME,)),
        Cause.PINGED_AS_STRANGER: (TRYING, (PAUSE,)),
        Cause.PING_MISSED: (TRYING, (PAUSE,)),
        Cause.LINK_BROKE: (TRYING, (PAUSE,)),
        Cause.CHANGED: (TRYING, (PAUSE,)),
    },
}


@pytest.mark.parametrize(("standing", "cause"), list(product(Standing, Cause)))
def test_every_pair_of_standing_and_cause(standing: Standing, cause: Cause) -> None:
    after, todo = step(Registration(standing=standing), cause, 100.0, 0.5)
    assert (after.standing, todo) == EXPECTED[standing].get(cause, (standing, ()))
    assert (standing, cause) in TABLE


def test_the_first_try_comes_within_one_backoff_factor_after_detection() -> None:
    after, _ = step(Registration(backoff_s=1.0), Cause.DETECTED, 100.0, 0.25)
    assert after.try_due_s == 100.25
    assert after.overdue(100.2) is None
    assert after.overdue(100.25) is Cause.TRY_DUE


def test_with_a_small_backoff_factor_the_first_try_is_immediate() -> None:
    after, _ = step(Registration(backoff_s=0.05), Cause.DETECTED, 100.0, 0.99)
    assert after.try_due_s == 100.0


@given(st.floats(0, 0.999), st.integers(1, 40))
def test_waits_grow_by_doubling_up_to_a_minute_and_are_never_nothing(dice: float, tries: int) -> None:
    registration = Registration(backoff_s=1.0, standing=Standing.TRYING, try_due_s=0.0)
    for n in range(1, tries + 1):
        registration, todo = step(registration, Cause.TRY_DUE, 0.0, dice)
        assert todo == (REGISTER,)
        assert registration.try_due_s is not None
        assert 0 < registration.try_due_s <= min(2.0**n, 60.0)


def test_each_ping_winds_the_watch_up_and_a_missing_one_is_noticed() -> None:
    registration = answered_with(Registration(standing=Standing.TRYING), 75.0)
    registration, _ = step(registration, Cause.ANSWERED, 0.0, 0.5)
    assert registration.overdue(74.9) is None
    registration, _ = step(registration, Cause.PINGED, 70.0, 0.5)
    assert registration.overdue(144.9) is None
    assert registration.overdue(145.0) is Cause.PING_MISSED


def test_a_master_that_pings_cuts_a_long_wait_short() -> None:
    registration = Registration(standing=Standing.TRYING, tries=9, try_due_s=160.0)
    registration, _ = step(registration, Cause.PINGED_AS_STRANGER, 101.0, 0.5)
    assert registration.overdue(101.0) is Cause.TRY_DUE


@given(st.floats(0, 0.999), st.sampled_from([0.01, 1.0, 20.0]))
def test_while_nothing_listens_at_the_masters_address_tries_do_not_become_rare(dice: float, backoff_s: float) -> None:
    registration = Registration(backoff_s=backoff_s, standing=Standing.TRYING, tries=9, try_due_s=160.0)
    registration, todo = step(registration, Cause.LINK_BROKE, 101.0, dice)
    assert todo == ()
    assert registration.try_due_s is not None
    assert 101.1 <= registration.try_due_s <= 101.0 + max(1.0, 2 * backoff_s)
    soon = Registration(backoff_s=backoff_s, standing=Standing.TRYING, tries=1, try_due_s=101.01)
    assert step(soon, Cause.LINK_BROKE, 101.0, dice)[0].try_due_s == 101.01


def test_a_master_that_names_no_timeout_gets_the_default() -> None:
    assert answered_with(Registration(), None).ping_timeout_s == 75.0
    assert answered_with(Registration(), 5.0).ping_timeout_s == 5.0
