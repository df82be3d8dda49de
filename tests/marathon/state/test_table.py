"""Books that are opened for one event, and closed: what was, stays as it was."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.engine.ids import ids_from, new_id
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.state import BOOKS, TABLES, State
from mesos_gpu.marathon.state.table import Table
from tests.support.golden import Golden
from tests.support.marathon.builders import SETTINGS, Run, app

KEYS = st.sampled_from("abc")


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.none() | st.integers())))
def test_a_table_is_a_mapping_that_remembers_what_changed(
    rows: dict[str, int], steps: list[tuple[str, int | None]]
) -> None:
    closed, expected = Table(dict(rows)), dict(rows)
    table = closed.opened()
    for key, value in steps:
        if value is None:
            table.drop(key)
            expected.pop(key, None)
        else:
            table.put(key, value)
            expected[key] = value
        assert (table == expected, len(table), table.get(key), key in table) == (
            True,
            len(expected),
            expected.get(key),
            key in expected,
        )
    assert closed == rows, "the table that was opened is what it was"
    after = table.closed()
    assert (after, dict(after.items()), list(after)) == (expected, expected, list(expected))
    assert {**rows, **table.changes}.keys() >= expected.keys()
    assert all(expected.get(key) == value for key, value in table.changes.items())
    assert (after is closed) == (not table.changes)


@given(
    few=st.integers(0, 4),
    events=st.lists(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | st.integers())), max_size=12),
    looks=st.lists(st.sampled_from(["walk", "walk the old one", "length", "nothing"]), min_size=12, max_size=12),
    given_up=st.sets(st.integers(0, 11)),
)
def test_large_tables_keep_their_rows_and_order_whatever_lies_beside_them(
    few: int, events: list[list[tuple[str, int | None]]], looks: list[str], given_up: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_few", few)
        closed = Table({key: 0 for key in "abcd"})
        expected = {key: 0 for key in "abcd"}
        before: list[tuple[Table[int], dict[str, int]]] = []
        for number, (steps, look) in enumerate(zip(events, looks, strict=False)):
            before.append((closed, dict(expected)))
            table, rows = closed.opened(), dict(expected)
            for key, value in steps:
                if value is None:
                    table.drop(key)
                    rows.pop(key, None)
                else:
                    table.put(key, value)
                    rows[key] = value
                assert (len(table), table.get(key), key in table) == (len(rows), rows.get(key), key in rows)
                if look == "walk":
                    assert list(table.items()) == list(rows.items())
                elif look == "walk the old one":
                    assert list(closed.items()) == list(expected.items())
            if number not in given_up:  # an event may end in an error, and its draft with it
                closed, expected = table.closed(), rows
        before.append((closed, expected))
        for table, rows in reversed(before):
            assert [table[key] for key in rows] == list(rows.values())
            assert (list(table.items()), len(table)) == (list(rows.items()), len(rows))
            with pytest.raises(KeyError):
                table["nowhere"]


def test_a_change_of_a_large_table_copies_no_rows() -> None:
    closed = Table({str(number): number for number in range(10_000)})
    table = closed.opened()
    table.put("7", -7)
    after = table.closed()
    assert (closed["7"], after["7"], len(after)) == (7, -7, 10_000)
    assert after._rows is closed._rows


def test_a_closed_table_does_not_change(golden: Golden) -> None:
    texts = set()
    for table in (Table({"a": 1}), Table({"a": 1}).opened().closed()):
        with pytest.raises(TypeError) as refused:
            table.put("b", 2)
        texts.add(str(refused.value))
        with pytest.raises(TypeError) as refused:
            table.drop("a")
        texts.add(str(refused.value))
        assert table == {"a": 1}
    (text,) = texts
    assert text == golden


def test_a_state_is_a_value() -> None:
    state = State()
    with pytest.raises(FrozenInstanceError, match="subscribed"):
        state.subscribed = True
    assert state == State()
    assert set(TABLES) < set(BOOKS) == set(vars(state))


def test_a_draft_that_changes_nothing_leads_to_the_same_tables() -> None:
    run = Run()
    run.subscribe()
    run.put(app())
    draft = Draft(run.state, run.moment, SETTINGS)
    after, actions = draft.finish()
    assert actions == []
    assert all(getattr(after, name) is getattr(run.state, name) for name in TABLES)


def test_what_a_draft_changes_is_saved_and_the_state_before_stays() -> None:
    run = Run()
    run.subscribe()
    run.put(app())
    before = run.state
    (instance,) = before.instances.values()
    draft = Draft(before, run.moment, SETTINGS)
    draft.drop_instance(instance)
    after, (save, *_) = draft.finish()
    assert isinstance(save, Save)
    assert (save.instances, save.apps) == ({instance.id: None}, {})
    assert (list(after.instances), list(before.instances)) == ([], [instance.id])
    assert (dict(after.members), dict(before.members)) == ({}, {"/a": frozenset({instance.id})})


def test_ids_of_one_seed_come_in_one_order_and_never_twice() -> None:
    seed = str(UUID(int=7))
    one, other = ids_from(seed), ids_from(seed)
    ids = [one() for _ in range(100)]
    assert ids == [other() for _ in range(100)]
    assert len({*ids, new_id(), ids_from(new_id())()}) == 102
    assert all(str(UUID(each)) == each for each in ids)


@pytest.mark.parametrize("read", ["get", "in", "item", "open", "open and drop"])
def test_a_closed_table_can_be_read_while_somebody_else_walks_over_it(
    read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "_few", 2)
    table = Table({"a": 1, "b": 2, "c": 3}).opened()
    table.put("a", 10)
    table.drop("b")
    closed = table.closed()
    assert closed._beside, "else nothing is shown here"

    class Beside(dict[str, int]):
        """What lies beside the rows, with a thread that walks over the table as soon as somebody else looks there."""

        def __contains__(self, key: object) -> bool:
            dict.keys(closed._whole())
            return super().__contains__(key)

        def get(self, key: str, default: Any = None, /) -> Any:
            dict.keys(closed._whole())
            return super().get(key, default)

    closed._beside = Beside(closed._beside)
    if read == "get":
        assert (closed.get("a"), closed.get("b"), closed.get("c")) == (10, None, 3)
    elif read == "in":
        assert ("a" in closed, "b" in closed, "c" in closed) == (True, False, True)
    elif read == "item":
        assert closed["a"] == 10
        assert closed["c"] == 3
    else:
        beside = closed._beside
        reading = closed.opened()
        dict.keys(closed._whole())
        # As a reader has it that took what lies beside before that walk, and the rows after it.
        reading._beside, reading._rows = beside, closed._rows
        if read == "open and drop":
            reading.drop("a")
            reading.drop("c")
            assert (dict(reading.items()), len(reading)) == ({}, 0)
        else:
            assert (dict(reading.items()), len(reading)) == ({"a": 10, "c": 3}, 2)


def test_a_draft_opens_the_tables_that_are_looked_at_and_no_others(golden: Golden) -> None:
    state = State()
    draft = Draft(state, Run().moment, SETTINGS)
    assert not draft.kills.changes
    assert {name for name in TABLES if name in vars(draft)} == {"kills"}
    with pytest.raises(AttributeError) as refused:
        _ = draft.kilns
    assert str(refused.value) == golden
    draft.kills.put("t", 1.0)
    after, actions = draft.finish()
    assert (dict(after.kills), actions) == ({"t": 1.0}, [])
    assert all(getattr(after, name) is getattr(state, name) for name in BOOKS if name not in ("kills", "tokens"))
