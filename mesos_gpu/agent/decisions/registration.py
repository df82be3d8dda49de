"""The agent's standing with its master, as a table: who is tried when, and what makes it try again.

Source: Mesos src/slave/slave.cpp (detected, authenticate, doReliableRegistration, ping, pingTimeout). One difference:
Mesos only logs a broken link to the master and waits for the ping watch (75 s). Here a broken link starts another
registration, and as long as the link cannot be made, the back-off does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, unique

from msgspec import Struct
from msgspec.structs import replace

RETRY_MAX_S = 60.0
DEFAULT_PING_TIMEOUT_S = 75.0
UNREACHABLE_RETRY_S = 1.0
"""The least bound of the time between two tries while no connection to the master can be made."""
SMALL_BACKOFF_S = 0.1
"""A `--registration_backoff_factor` up to this makes the first try immediate."""


@unique
class Standing(Enum):
    """Where the agent stands with its master."""

    ALONE = "alone"
    TRYING = "trying"
    REGISTERED = "registered"


@unique
class Cause(Enum):
    """What may change the standing."""

    DETECTED = "a master was detected"
    NONE_LEADS = "no master leads"
    TRY_DUE = "time for the next try"
    ANSWERED = "the master registered us"
    PINGED = "a ping came that knows us"
    PINGED_AS_STRANGER = "a ping came that calls us disconnected"
    PING_MISSED = "no ping came in time"
    LINK_BROKE = "the link to the master broke"
    AUTHENTICATED = "the master knows who we are"
    CHANGED = "what the agent has to offer changed"


@unique
class Todo(Enum):
    """What the caller must do about a change, in this order."""

    PAUSE_UPDATES = "hold status updates back"
    LINK_AND_REGISTER = "link to the master and send a (re-)registration"
    RESUME_UPDATES = "send all outstanding status updates"


class Registration(Struct, frozen=True):
    """The standing, and the two clocks that run: the next try, and the next ping that must have come by then.

    Times are monotonic seconds. `backoff_s` is `--registration_backoff_factor`.
    """

    backoff_s: float = 1.0
    standing: Standing = Standing.ALONE
    tries: int = 0
    try_due_s: float | None = None
    ping_timeout_s: float = DEFAULT_PING_TIMEOUT_S
    ping_due_s: float | None = None

    @property
    def next_due_s(self) -> float | None:
        """Return when `overdue` next has something to say."""
        return self.try_due_s if self.standing is Standing.TRYING else self.ping_due_s

    def overdue(self, now_s: float) -> Cause | None:
        """Return the cause that time alone has brought about, if any."""
        if self.next_due_s is None or now_s < self.next_due_s:
            return None
        return Cause.TRY_DUE if self.standing is Standing.TRYING else Cause.PING_MISSED


Step = tuple[Registration, tuple[Todo, ...]]


def step(registration: Registration, cause: Cause, now_s: float, dice: float) -> Step:
    """Return the registration after `cause` and what must be done. `dice` is random in [0, 1)."""
    return TABLE[registration.standing, cause](registration, now_s, dice)


def answered_with(registration: Registration, ping_timeout_s: float | None) -> Registration:
    """Return the same with the ping timeout that the master named (DEFAULT_PING_TIMEOUT_S when it named none)."""
    return replace(registration, ping_timeout_s=ping_timeout_s or DEFAULT_PING_TIMEOUT_S)


def _seek(registration: Registration, now_s: float, dice: float) -> Step:
    """Begin again: hold updates back, first try within one back-off factor."""
    first_s = 0.0 if registration.backoff_s <= SMALL_BACKOFF_S else dice * registration.backoff_s
    after = replace(registration, standing=Standing.TRYING, tries=0, try_due_s=now_s + first_s, ping_due_s=None)
    return after, (Todo.PAUSE_UPDATES,)


def _alone(registration: Registration, now_s: float, dice: float) -> Step:
    after = replace(registration, standing=Standing.ALONE, tries=0, try_due_s=None, ping_due_s=None)
    return after, (Todo.PAUSE_UPDATES,)


def _try(registration: Registration, now_s: float, dice: float) -> Step:
    """Try, and set the clock: uniform in 0..factor*2^tries, at most a minute, at least a little."""
    tries = registration.tries + 1
    bound_s = min(max(registration.backoff_s, SMALL_BACKOFF_S) * 2.0 ** min(tries, 16), RETRY_MAX_S)
    # A try every few microseconds helps nobody: the low end of the range is a tenth of it.
    after = replace(registration, tries=tries, try_due_s=now_s + bound_s * max(dice, 0.1))
    return after, (Todo.LINK_AND_REGISTER,)


def _retry_soon(registration: Registration, now_s: float, dice: float) -> Step:
    """Nothing listens at the master's address: try again within the bound of a first try, however long that lasts.

    The back-off protects a master that is slow to answer. After a long absence of the master, its agents register
    again within this bound, spread over it.
    """
    soon_s = now_s + max(2.0 * registration.backoff_s, UNREACHABLE_RETRY_S) * max(dice, 0.1)
    due_s = soon_s if registration.try_due_s is None else min(registration.try_due_s, soon_s)
    return replace(registration, try_due_s=due_s), ()


def _hurry(registration: Registration, now_s: float, dice: float) -> Step:
    """A master that pings us is there: do not sit out a long back-off."""
    return replace(registration, tries=0, try_due_s=now_s), ()


def _again(registration: Registration, now_s: float, dice: float) -> Step:
    """Register again, at once; what is said in between waits for the answer, so that it comes after the change."""
    after = replace(registration, standing=Standing.TRYING, tries=0, try_due_s=now_s, ping_due_s=None)
    return after, (Todo.PAUSE_UPDATES,)


def _registered(registration: Registration, now_s: float, dice: float) -> Step:
    due_s = now_s + registration.ping_timeout_s
    after = replace(registration, standing=Standing.REGISTERED, tries=0, try_due_s=None, ping_due_s=due_s)
    return after, (Todo.RESUME_UPDATES,)


def _watch(registration: Registration, now_s: float, dice: float) -> Step:
    return replace(registration, ping_due_s=now_s + registration.ping_timeout_s), ()


def _nothing(registration: Registration, now_s: float, dice: float) -> Step:
    return registration, ()


TABLE: Mapping[tuple[Standing, Cause], Callable[[Registration, float, float], Step]] = {
    (Standing.ALONE, Cause.DETECTED): _seek,
    (Standing.ALONE, Cause.NONE_LEADS): _nothing,
    (Standing.ALONE, Cause.TRY_DUE): _nothing,
    (Standing.ALONE, Cause.ANSWERED): _nothing,
    (Standing.ALONE, Cause.PINGED): _nothing,
    (Standing.ALONE, Cause.PINGED_AS_STRANGER): _nothing,
    (Standing.ALONE, Cause.PING_MISSED): _nothing,
    (Standing.ALONE, Cause.LINK_BROKE): _nothing,
    (Standing.ALONE, Cause.AUTHENTICATED): _nothing,
    (Standing.ALONE, Cause.CHANGED): _nothing,
    (Standing.TRYING, Cause.DETECTED): _seek,
    (Standing.TRYING, Cause.NONE_LEADS): _alone,
    (Standing.TRYING, Cause.TRY_DUE): _try,
    (Standing.TRYING, Cause.ANSWERED): _registered,
    (Standing.TRYING, Cause.PINGED): _nothing,
    (Standing.TRYING, Cause.PINGED_AS_STRANGER): _hurry,
    (Standing.TRYING, Cause.PING_MISSED): _nothing,
    (Standing.TRYING, Cause.LINK_BROKE): _retry_soon,
    (Standing.TRYING, Cause.AUTHENTICATED): _hurry,
    (Standing.TRYING, Cause.CHANGED): _hurry,
    (Standing.REGISTERED, Cause.DETECTED): _seek,
    (Standing.REGISTERED, Cause.NONE_LEADS): _alone,
    (Standing.REGISTERED, Cause.TRY_DUE): _nothing,
    (Standing.REGISTERED, Cause.ANSWERED): _registered,
    (Standing.REGISTERED, Cause.PINGED): _watch,
    (Standing.REGISTERED, Cause.PINGED_AS_STRANGER): _seek,
    (Standing.REGISTERED, Cause.PING_MISSED): _seek,
    (Standing.REGISTERED, Cause.LINK_BROKE): _seek,
    (Standing.REGISTERED, Cause.AUTHENTICATED): _nothing,
    (Standing.REGISTERED, Cause.CHANGED): _again,
}
