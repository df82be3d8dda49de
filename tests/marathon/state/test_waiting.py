"""What waits: in order, and never more work than what an event changes."""

from __future__ import annotations

import itertools
import sys
from bisect import insort
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions.launching import next_launch_s
from mesos_gpu.marathon.decisions.requests import MAX_INSTANCES
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state import asked
from mesos_gpu.marathon.state import turns as turns_module
from mesos_gpu.marathon.state.actions import Action, Decline, Launch, Revive
from mesos_gpu.marathon.state.asked import Asked
from mesos_gpu.marathon.state.events import Offered, PutGroup, RemoveApp, Tick
from mesos_gpu.marathon.state.given_back import NO_CALLS, NOTHING_AWAITED, GivenBack, by_agent, in_all, lifted
from mesos_gpu.marathon.state.lines import Lines
from mesos_gpu.marathon.state.members import Members
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.turns import Line, Turn, Turns
from mesos_gpu.marathon.state.unused import Queue, Unsuited, counted
from mesos_gpu.marathon.state.waiting import Waiting
from mesos_gpu.mesos.ids import Role, TaskId
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.builders import SETTINGS, T0, Run, app, offer, only, status

turn = st.tuples(st.integers(0, 6).map(float), st.sampled_from("abcdef"))


@given(st.lists(turn, max_size=12), st.lists(st.tuples(st.booleans(), turn), max_size=40), st.integers(1, 4))
def test_turns_are_a_sorted_list_that_never_changes(
    first: list[tuple[float, str]], steps: list[tuple[bool, tuple[float, str]]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns_module, "_BLOCK", block)
        made, expected = Turns(first), sorted(set(first))
        for comes, each in steps:
            before, was = made, list(made)
            made = made.added(each) if comes else made.without(each)
            if comes and each not in expected:
                insort(expected, each)
            elif not comes and each in expected:
                expected.remove(each)
            else:
                assert made is before
            assert (list(made), len(made)) == (expected, len(expected))
            assert list(before) == was
            if expected:
                assert made.first == expected[0]


def test_a_change_of_thousands_shares_all_but_a_small_part() -> None:
    many = Turns((float(n), f"i{n}") for n in range(20_000))
    changed = many.without((9_000.0, "i9000"))
    assert len(set(map(id, changed._blocks)) - set(map(id, many._blocks))) == 1


def test_a_line_goes_on_as_some_leave() -> None:
    line = Line(Turns([(1.0, "a"), (2.0, "b"), (3.0, "c")]))
    line.leave("b")
    assert (line.first, list(line), len(line)) == ("a", ["a", "c"], 2)
    line.leave("a")
    assert (line.first, bool(line)) == ("c", True)
    line.leave("c")
    assert not line
    with pytest.raises(IndexError):
        line.first  # noqa: B018 - it is a property


def instance(key: str, app_id: str, since_s: float) -> Instance:
    return Instance(key, app_id, "v", Role("*"), since_s)


moves = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 4)), st.tuples(st.just("drop"), st.integers(0, 9))
)


@given(st.lists(st.tuples(st.booleans(), st.lists(moves, max_size=8)), max_size=8))
def test_the_order_of_what_waits_is_that_of_sorting_it(events: list[tuple[bool, list[tuple[object, ...]]]]) -> None:
    closed = Waiting()
    known: dict[str, Instance] = {}
    for kept, steps in events:
        table, now = closed.opened(), dict(known)
        for step in steps:
            number = int(str(step[1]))
            key, app_id = f"i{number}", f"/{number % 3}"
            if step[0] == "add":
                now[key] = instance(key, app_id, float(str(step[2])))
                table.add(now[key])
            else:
                now.pop(key, None)
                table.drop(key)
            _same(table, now)
        _same(closed, known)
        after = table.closed()
        if kept:  # else the event was refused, and nothing has happened
            closed, known = after, now
    _same(closed, known)
    _same(Waiting.of(list(known.values())), known)


def _same(table: Waiting, known: dict[str, Instance]) -> None:
    order = sorted((i.since_s, i.id) for i in known.values())
    apps = list(dict.fromkeys(known[key].app_id for _, key in order))
    assert list(table.order) == order
    assert list(table.apps()) == apps
    assert [key for _, key in table.heads] == [
        next(key for _, key in order if known[key].app_id == app_id) for app_id in apps
    ]
    for app_id in ("/0", "/1", "/2"):
        assert list(table.line(app_id)) == [each for each in order if known[each[1]].app_id == app_id]
        assert table.has_app(app_id) == (app_id in apps)


TURNS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 99)),
    unique_by=lambda each: each[2],
    max_size=20,
)


def lines_of(asked: list[tuple[str, int, int]]) -> Lines:
    lines = Lines()
    for kind, since_s, number in asked:
        lines = lines.with_turn(kind, (float(since_s), str(number)))
    return lines


@given(TURNS, st.sets(st.sampled_from("abc")))
def test_all_are_next_in_the_order_of_waiting_but_those_behind_one_without_a_place(
    asked: list[tuple[str, int, int]], unfit: set[str]
) -> None:
    kinds = {str(number): kind for kind, _, number in asked}
    order = sorted((float(since_s), str(number)) for _, since_s, number in asked)
    wanted: list[Turn] = []
    for turn in order:
        if kinds[turn[1]] not in {kinds[key] for _, key in wanted} & unfit:
            wanted.append(turn)
    turns = lines_of(asked).in_turn()
    found = [first] if (first := next(turns, None)) is not None else []
    while found:
        try:
            found.append(turns.send(kinds[found[-1][1]] not in unfit))
        except StopIteration:
            break
    assert found == wanted


@given(TURNS)
def test_who_leaves_is_gone_and_an_empty_line_too(asked: list[tuple[str, int, int]]) -> None:
    lines = lines_of(asked)
    for kind, since_s, number in asked:
        lines = lines.without(kind, (float(since_s), str(number)))
    assert lines == Lines()


def test_who_does_not_stand_in_a_line_cannot_leave_it(golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        lines_of([("a", 1, 2)]).without("a", (1.0, "3"))
    assert str(refused.value) == golden


def test_who_came_last_is_last_of_all_lines() -> None:
    assert lines_of([("a", 1, 2), ("b", 3, 1), ("a", 2, 9)]).last == (3.0, "1")


IDS = st.sets(st.sampled_from("abcdefgh").map(TaskId))


@given(first=IDS, steps=st.lists(st.tuples(IDS, IDS), max_size=8), few=st.integers(0, 6))
def test_they_are_the_set_of_them(first: set[TaskId], steps: list[tuple[set[TaskId], set[TaskId]]], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asked, "_FEW", few)
        ids, expected = Asked(first), frozenset(first)
        for gone, added in steps:
            before = ids
            ids = ids.after(gone, added)
            assert before == expected, "it never changes"
            expected = expected - gone | added
            assert (ids, set(ids), len(ids)) == (expected, expected, len(expected))
            assert all((key in ids) == (key in expected) for key in "abcdefgh")
            assert (added <= ids, hash(ids) == hash(Asked(expected))) == (True, True)
            assert Asked(ids & {"a", "b"} | gone) == expected & {"a", "b"} | gone


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


NAMES = st.sampled_from(["a", "b", "c"])


@given(
    st.dictionaries(NAMES, st.frozensets(NAMES, min_size=1)), st.lists(st.tuples(st.sampled_from("+-"), NAMES, NAMES))
)
def test_members_are_sets_that_leave_what_they_began_with_as_it_was(
    base: dict[str, frozenset[str]], steps: list[tuple[str, str, str]]
) -> None:
    before, members = dict(base), Members(base).opened()
    expected = {app_id: set(ids) for app_id, ids in base.items()}
    for sign, app_id, instance_id in steps:
        mine = expected.setdefault(app_id, set())
        if sign == "+":
            members.add(app_id, instance_id)
            mine.add(instance_id)
        else:
            members.discard(app_id, instance_id)
            mine.discard(instance_id)
        assert set(members.of(app_id)) == mine
    assert dict(members.closed()) == {app_id: ids for app_id, ids in expected.items() if ids}
    assert base == before


def calls(work: Callable[[], Any]) -> int:
    """Return how many functions are called: a measure of work that no other process disturbs."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_ten_times_as_many_instances_are_ten_times_the_work() -> None:
    def life(count: int) -> list[int]:
        run = Run()
        run.subscribe()
        return [
            calls(lambda: run.put(app(instances=count, cpus=1000))),
            calls(lambda: run.put({"id": "/a", "labels": {"a": "b"}}, force=True)),
            calls(lambda: run.do(RemoveApp("/a", "d"), after_s=1)),
        ]

    for few, many in zip(life(100), life(1000), strict=True):
        assert many < 13 * few


def test_a_slip_of_the_keyboard_is_refused(golden: Golden) -> None:
    run = Run()
    with pytest.raises(InvalidApp) as refused:
        run.put(app(instances=MAX_INSTANCES + 1))
    assert str(refused.value) == golden
    run.put(app("/g/a", instances=2))
    before = run.state
    with pytest.raises(InvalidApp) as refused:
        run.do(PutGroup("/g", {"scaleBy": 1e300}, "d", force=True))
    assert [problem.path for problem in refused.value.problems] == ["/instances"]
    assert run.state is before


WAITS, OTHER = "team", "slave_public"
SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)


def offered(number: int, agent: int, role: str, *, gpus: int = 1) -> dict[str, Any]:
    found = offer(
        f"O{number}", agent=f"S{agent}", host=f"h{agent}", cpus=gpus, gpus=gpus, allocation_info={"role": role}
    )
    for resource in found["resources"]:
        resource["allocation_info"] = {"role": role}
    return found


def waiting(**changes: Any) -> Run:
    """A gang of two that waits in another role than this Marathon's own."""
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/team/a", gpus=1, role=WAITS, gang={"size": 2}, **changes))
    run.do(Tick(), after_s=10)
    return run


def declined(actions: Sequence[Action]) -> dict[str, float]:
    return {offer_id: each.refuse_s for each in only(actions, Decline) for offer_id in each.offer_ids}


def test_what_the_role_that_waits_refuses_it_refuses_while_the_machine_is_offered_in_another() -> None:
    run = waiting()
    assert declined(run.do(Offered([offered(1, 0, WAITS)]))) == {"O1": 120.0}
    assert declined(run.do(Offered([offered(2, 0, OTHER)]))) == {"O2": 120.0}
    # Another machine comes a minute later: with the first one there is room for both, and it is asked for once.
    revives = only(run.do(Offered([offered(3, 1, OTHER)]), after_s=60), Revive)
    for _ in range(10):
        revives += only(run.do(Tick(), after_s=1), Revive)
    assert len(revives) == 1


def test_a_machine_that_came_in_another_role_is_waited_for_until_its_refusal_is_over_and_it_could_be_here() -> None:
    run = waiting(priority=1)
    # Nothing can be promised to it yet, so that both are refused for long; then both come within moments.
    run.do(Offered([offered(1, 0, WAITS)]))
    run.do(Offered([offered(2, 0, OTHER)]), after_s=1)
    assert only(run.do(Offered([offered(3, 1, WAITS)]), after_s=20), Revive)
    launches = only(run.do(Offered([offered(4, 0, WAITS)]), after_s=2), Launch)
    assert sorted(each.offer_id for each in launches) == ["O3", "O4"]


def test_a_machine_of_which_two_roles_have_a_part_each_is_given_back_to_come_as_one() -> None:
    run = waiting(priority=1)
    run.put(app("/other/b", gpus=4, role="other", gang={"size": 2}))
    run.do(Tick(), after_s=10)
    given = declined(run.do(Offered([offered(1, 0, WAITS, gpus=2), offered(2, 0, "other")])))
    # It comes in the role in which the rest came: what the other one was offered may be all that it can have.
    assert given == {"O1": SHARED.gang_offer_hold_s, "O2": 0.0}
    assert [offer.gpus for offer, _, _ in run.state.away if offer.agent_id == "S0"] == [3]


def test_the_rest_of_a_machine_at_hand_that_comes_where_nothing_waits_is_not_one_that_is_coming() -> None:
    # As a master does when the role's quota leaves it no more of the machine.
    run = waiting()
    run.do(Offered([offered(1, 1, WAITS)]))
    held = run.do(Offered([offered(2, 0, WAITS)]))
    assert not declined(held)
    assert only(held, Revive)
    given = declined(run.do(Offered([offered(3, 0, OTHER)])))
    assert given == {"O3": 120.0}
    assert [offer.id for offer, _, _ in run.state.away if offer.agent_id == "S0"] == []
    assert [document["id"]["value"] for document in run.state.held] == ["O2"]


def test_what_was_freed_on_a_machine_at_hand_comes_with_the_rest() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/other/busy", gpus=1, role="other", maxRuntimeSeconds=3600))
    (task_id,) = (run.do(Offered([offered(1, 0, "other")])), run.tasks("/other/busy"))[1]
    run.do(status(task_id, agent_id={"value": "S0"}))
    run.put(app("/team/a", gpus=2, role=WAITS, gang={"size": 2}))
    run.do(Tick(), after_s=10)
    run.do(Offered([offered(2, 0, WAITS), offered(3, 1, WAITS, gpus=2)]))
    run.do(status(task_id, "TASK_FAILED", agent_id={"value": "S0"}))
    given = declined(run.do(Offered([offered(4, 0, OTHER)])))
    assert given == {"O2": 0.0, "O4": 120.0}


def test_nothing_starts_while_a_machine_that_came_in_parts_comes_as_one() -> None:
    run = waiting()
    held = run.do(Offered([offered(1, 0, WAITS), offered(2, 0, WAITS), offered(3, 1, WAITS, gpus=2)]))
    assert not only(held, Launch)
    assert [document["id"]["value"] for document in run.state.held] == ["O3"]
    next_s = next_launch_s(run.state, SHARED, run.moment)
    assert next_s is not None
    assert next_s <= run.now_s + 1.5
    launches = only(run.do(Offered([offered(4, 0, WAITS, gpus=2)]), after_s=1), Launch)
    assert sorted(each.offer_id for each in launches) == ["O3", "O4"]


def test_what_comes_in_parts_again_and_again_is_not_waited_for() -> None:
    awaited = NOTHING_AWAITED
    waited = []
    for tenth in range(300):
        awaited = awaited.after({"S0"}, {"S0", "S1"}, T0 + tenth / 10)
        waited += [tenth] if awaited.holds_up(T0 + tenth / 10) else []
    assert waited == [*range(15), *range(115, 130), *range(230, 245)]
    # What has come as one is not waited for, and a clock that was set back ends the wait.
    awaited = NOTHING_AWAITED.after({"S0"}, (), T0)
    assert not awaited.after((), {"S0"}, T0 + 1).holds_up(T0 + 1)
    assert not awaited.holds_up(T0 - 100)


def test_offers_are_asked_for_ever_more_seldom_while_nothing_comes_of_it() -> None:
    calls, asked = NO_CALLS, []
    for second in range(300):
        if calls.due(T0 + second):
            calls, asked = calls.made(T0 + second), [*asked, second]
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps == [1, 1, 1, 2, 4, 8, 16, *[30] * (len(gaps) - 7)]
    assert calls.started().due(T0 + asked[-1])
    # A clock that was set back holds nobody up.
    assert calls.due(T0 - 1000.0)


def test_of_a_machine_that_came_in_several_roles_the_most_counts_and_each_knows_what_it_was_offered() -> None:
    back = GivenBack((), T0)
    cut, whole = Offer.from_json(offered(1, 0, WAITS)), Offer.from_json(offered(2, 0, "other", gpus=4))
    back.refused(whole, 120.0)
    back.refused(cut, 120.0)
    assert back.offers == [whole]
    assert back.lately == {("S0", WAITS): cut, ("S0", "other"): whole}
    later = GivenBack(back.entries, T0 + 60)
    later.refused(cut, 120.0)
    assert (later.offers, later.lately) == ([whole], {("S0", WAITS): cut})
    # What has started on it makes it another.
    later.used(cut, 1.0)
    assert later.offers == [cut]


def test_a_role_that_is_offered_a_part_of_each_machine_does_not_wait_for_the_whole_of_them() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/other/first", gpus=2, role="other", gang={"size": 2}, priority=1, maxRuntimeSeconds=60))
    run.put(app("/team/small", gpus=4, role=WAITS, gang={"size": 2}))
    run.do(Tick(), after_s=10)
    run.do(Offered([offered(1, 0, WAITS, gpus=3)]))
    run.do(Offered([offered(2, 0, "other", gpus=1)]))
    # Its own role was told of one GPU there, another one of three.
    held = run.do(Offered([offered(3, 1, "other", gpus=2)]))
    assert declined(held) == {"O3": 120.0}
    assert not only(held, Revive)


def test_nobody_refuses_anything_after_offers_were_asked_for() -> None:
    back = GivenBack((), T0)
    here = Offer.from_json(offered(1, 0, WAITS))
    back.refused(here, 120.0)
    assert back.still_refused == {("S0", WAITS)}
    again = GivenBack(lifted(back.entries, T0 + 1), T0 + 2)
    assert (again.offers, again.still_refused) == ([here], set())
    # What has not come by now is somebody else's.
    assert not GivenBack(again.entries, T0 + 5).offers


def test_what_is_at_hand_in_one_role_may_be_refused_in_another() -> None:
    back = GivenBack((), T0)
    waits, other = (Offer.from_json(offered(at, 0, role)) for at, role in enumerate((WAITS, OTHER)))
    back.refused(waits, 120.0)
    back.refused(other, 5.0)
    assert back.offers == [other]
    back.at_hand([other])
    assert (back.offers, back.still_refused) == ([], {("S0", WAITS)})


def test_a_machine_of_which_several_roles_have_something_unreserved_is_told_apart_from_others() -> None:
    first, second, rest = (Offer.from_json(offered(at, at % 2, WAITS)) for at in range(3))
    kept = replace(rest, resources=Resources.parse("gpus(keeper):1"))
    assert by_agent([first, second], [kept]) == ([first, second], [])
    assert by_agent([first, second], [rest]) == ([second], [[first, rest]])
    assert by_agent([second], [first, rest]) == ([second], [])
    assert in_all([first, rest]).gpus == 2


def test_two_gangs_of_two_roles_are_not_in_one_anothers_way() -> None:
    """A machine that is at hand in another role is had over: it is refused there, and asked for where it is wanted."""
    run = waiting(priority=1)
    run.put(app("/other/b", gpus=4, role="other", gang={"size": 2}))
    run.do(Tick(), after_s=10)
    held = run.do(Offered([offered(1, 0, WAITS), offered(2, 1, "other")]))
    assert declined(held) == {"O2": SHARED.gang_offer_hold_s}
    launches = only(run.do(Offered([offered(3, 1, WAITS)]), after_s=2), Launch)
    assert sorted(each.offer_id for each in launches) == ["O1", "O3"]


def test_what_may_go_before_the_first_has_a_machine_over_that_is_held_in_anothers_role() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/other/busy", gpus=1, role="other", maxRuntimeSeconds=3600))
    (task_id,) = (run.do(Offered([offered(1, 2, "other")])), run.tasks("/other/busy"))[1]
    run.do(status(task_id, agent_id={"value": "S2"}))
    # First comes a gang that wants three machines, of which one is busy for an hour; then one that fits beside it.
    run.put(app("/other/first", gpus=1, role="other", gang={"size": 3}, priority=1))
    run.put(app("/team/small", cpus=0.1, role=WAITS, gang={"size": 2}, maxRuntimeSeconds=60))
    run.do(Tick(), after_s=10)
    given = declined(run.do(Offered([offered(2, 0, "other"), offered(3, 1, WAITS)])))
    assert given == {"O2": SHARED.gang_offer_hold_s}
    assert {each.offer_id for each in only(run.do(Offered([offered(4, 0, WAITS)])), Launch)} == {"O3", "O4"}
