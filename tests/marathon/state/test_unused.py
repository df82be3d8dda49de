"""Entries of /v2/queue whose offers are counted when somebody asks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.unused import Queue, Unsuited, counted
from tests.support.golden import Golden
from tests.support.histories import examples

CPUS = (Reason.INSUFFICIENT_CPUS,)


def unsuited(at_s: float, *apps: str) -> Unsuited:
    return Unsuited(f"S{at_s % 5:g}", {"id": {"value": f"O{at_s:g}"}}, at_s, dict.fromkeys(apps, CPUS))  # type: ignore[arg-type]


def test_what_was_noted_is_counted_from_the_first_offer_on() -> None:
    queue = Queue().opened()
    queue.note(unsuited(1.0, "/a"))
    queue.note(unsuited(2.0, "/a", "/b"))
    entry = queue.closed()["/a"]
    assert (entry.since_s, entry.processed, entry.unused, entry.last_unused_s) == (1.0, 2, 2, 2.0)
    assert entry.rejected == {Reason.INSUFFICIENT_CPUS: 2}
    assert queue.closed().get("/c") is None


def test_what_is_closed_stays_as_it_was(golden: Golden) -> None:
    first = Queue().opened()
    first.note(unsuited(1.0, "/a"))
    closed = first.closed()
    second = closed.opened()
    second.note(unsuited(2.0, "/a"))
    assert closed["/a"].unused == 1
    assert second.closed()["/a"].unused == 2
    with pytest.raises(TypeError) as refused:
        closed.note(unsuited(3.0, "/a"))
    assert str(refused.value) == golden


ids = st.sampled_from(["/a", "/b", "/c"])
steps = st.one_of(
    st.tuples(st.just("note"), st.sets(ids)),
    st.tuples(st.just("used"), ids),
    st.tuples(st.just("drop"), ids),
    st.tuples(st.just("look"), ids),
    st.tuples(st.just("close")),
    st.tuples(st.just("many")),
)


@settings(max_examples=examples(60))
@given(st.lists(steps, max_size=30))
def test_it_reads_as_if_each_offer_were_counted_at_once(history: list[tuple]) -> None:  # type: ignore[type-arg]
    queue, plain = Queue().opened(), dict[str, QueueEntry]()

    def note(each: Unsuited) -> None:
        queue.note(each)
        for key in each.apps:
            plain[key] = counted(plain.get(key), key, [each])

    for number, (kind, *rest) in enumerate(history):
        if kind == "note":
            note(unsuited(float(number), *rest[0]))
        elif kind == "many":
            for _ in range(70):
                note(unsuited(float(number), "/a"))
        elif kind == "used":
            entry = (queue.get(rest[0]) or QueueEntry(0.0)).used(number)
            queue.put(rest[0], entry)
            plain[rest[0]] = (plain.get(rest[0]) or QueueEntry(0.0)).used(number)
        elif kind == "drop":
            queue.drop(rest[0])
            plain.pop(rest[0], None)
        elif kind == "look":
            assert queue.get(rest[0]) == plain.get(rest[0])
            assert (rest[0] in queue) == (rest[0] in plain)
        else:
            closed = queue.closed()
            assert dict(closed.items()) == plain
            queue = closed.opened()
    assert {key: queue[key] for key in plain} == plain
    assert (len(queue), set(queue), list(queue.values())) == (len(plain), set(plain), [queue[key] for key in queue])


def test_what_was_only_noted_is_forgotten_with_its_app_though_nobody_has_asked() -> None:
    queue = Queue().opened()
    queue.note(unsuited(1.0, "/a", "/b"))
    closed = queue.closed()
    assert len(closed) == 2
    again = closed.opened()
    again.drop("/a")
    after = again.closed()
    assert (after.get("/a"), list(after), len(closed)) == (None, ["/b"], 2)
