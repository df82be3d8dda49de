"""Books that are opened for one event, and closed: what was, stays as it was."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.engine.ids import ids_from, new_id
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.state import BOOKS, TABLES, State
from mesos_gpu.marathon.state.table import Table
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


def test_a_closed_table_does_not_change() -> None:
    for table in (Table({"a": 1}), Table({"a": 1}).opened().closed()):
        with pytest.raises(TypeError, match="only while an event is handled"):
            table.put("b", 2)
        with pytest.raises(TypeError, match="only while an event is handled"):
            table.drop("a")
        assert table == {"a": 1}


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
