"""Events to many listeners: each gets those it wants, in order, in as few pieces as they were held in."""

from __future__ import annotations

import json
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.engine.event_bus import EventBus, Listener

KINDS = ("a", "b", "c")


def read(data: bytes) -> list[tuple[str, int]]:
    """The events of Server-Sent Events as (type, number)."""
    found = []
    for frame in data.decode().split("\r\n\r\n")[:-1]:
        event, body = frame.split("\r\n")
        document = json.loads(body.removeprefix("data: "))
        assert document["eventType"] == event.removeprefix("event: ")
        found.append((document["eventType"], document["number"]))
    return found


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=12),
    st.lists(st.frozensets(st.sampled_from(KINDS)), max_size=5),
)
def test_each_listener_gets_what_it_wants_in_order(
    events: list[tuple[str, bool]], wishes: list[Collection[str]]
) -> None:
    bus = EventBus(lambda: 0.0)
    got: list[list[bytes]] = [[] for _ in wishes]
    for pieces, kinds in zip(got, wishes, strict=True):
        bus.add(Listener(pieces.append, kinds))
    for number, (kind, hold) in enumerate(events):
        bus.publish(kind, {"number": number}, hold=hold)
    bus.flush()
    for pieces, kinds in zip(got, wishes, strict=True):
        expected = [(kind, number) for number, (kind, _) in enumerate(events) if not kinds or kind in kinds]
        assert read(b"".join(pieces)) == expected
        assert all(pieces)
        assert len(pieces) <= 1 + sum(not hold for _, hold in events)


def test_those_who_want_the_same_share_what_is_sent_to_them() -> None:
    bus, one, other = EventBus(lambda: 0.0), list[bytes](), list[bytes]()
    bus.add(Listener(one.append, frozenset()))
    bus.add(Listener(other.append, frozenset()))
    for number in range(3):
        bus.publish("a", {"number": number}, hold=True)
    bus.flush()
    assert len(one) == len(other) == 1
    assert one[0] is other[0], "a hundred listeners that are behind keep one copy"


def test_who_comes_later_or_has_left_gets_nothing() -> None:
    bus, got = EventBus(lambda: 0.0), list[bytes]()
    listener = Listener(got.append, frozenset())
    bus.publish("a", {"number": 1})
    bus.add(listener)
    bus.remove(listener)
    bus.publish("a", {"number": 2})
    assert got == []
