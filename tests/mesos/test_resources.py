"""Resources: exact arithmetic, Mesos' words."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import Reservation, Resource, merge_ranges, milli, scalar_text, subtract_ranges
from mesos_gpu.mesos.resource_rules import disk_problem, reservations_problem, value_problem
from mesos_gpu.mesos.resources import Resources, validate, validate_gpus

ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=5
).map(lambda pairs: merge_ranges(tuple(pairs)))
roles = st.sampled_from([(), (Reservation("ml"),), (Reservation("ml", "DYNAMIC", "ops"),), (Reservation("web"),)])
resource = st.one_of(
    st.builds(Resource, st.sampled_from(["cpus", "mem", "gpus"]), st.integers(0, 9000), roles),
    st.builds(Resource, st.just("ports"), ranges, roles),
    st.builds(Resource, st.just("racks"), st.frozensets(st.sampled_from("abcd")), roles),
)
bags = st.lists(resource, max_size=6).map(Resources)


def scalar(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


def numbers(pairs: tuple[tuple[int, int], ...]) -> set[int]:
    return {n for begin, end in pairs for n in range(begin, end + 1)}


@given(bags, bags)
def test_what_was_added_can_be_taken_away_again(a: Resources, b: Resources) -> None:
    # Sets and ranges have no multiplicity: only what `a` did not hold already comes off whole.
    total = a + b
    assert total.contains(a)
    assert total.contains(b)
    for name in ("cpus", "mem", "gpus"):
        assert (total - b).milli(name) == a.milli(name)


@given(bags, bags)
def test_subtraction_never_goes_below_zero(a: Resources, b: Resources) -> None:
    left = a - b
    assert a.contains(left)
    assert all(not r.empty for r in left)
    assert a - a == Resources()


@given(bags)
def test_json_and_back_is_the_same_in_both_formats(bag: Resources) -> None:
    assert Resources.from_json(bag.to_json(refined=True)) == bag
    assert Resources.from_json(bag.to_json()) == bag


@given(bags, st.integers(0, 12000), st.permutations(["*", "ml", "web"]))
def test_find_takes_exactly_what_was_asked_or_nothing(bag: Resources, asked: int, order: list[str]) -> None:
    found = bag.find("cpus", asked, order)
    if found is None:
        assert bag.milli("cpus") < asked
    else:
        assert bag.contains(found)
        assert found.milli("cpus") == asked


@given(ranges, ranges)
def test_range_subtraction_is_set_subtraction(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> None:
    assert numbers(subtract_ranges(a, b)) == numbers(a) - numbers(b)
    assert numbers(merge_ranges((*a, *b))) == numbers(a) | numbers(b)


@pytest.mark.parametrize(
    ("value", "thousandths"),
    [
        (1.5123, 1512),
        (1.001, 1001),
        (8.001, 8001),
        (0.1, 100),
        (1.0001, 1000),
        (0.0005, 1),
        (4.0005, 4000),
        (-1, -1000),
    ],
)
def test_scalars_are_thousandths(value: float, thousandths: int) -> None:
    assert milli(value) == thousandths


@pytest.mark.parametrize(("thousandths", "text"), [(100, "0.1"), (2000, "2"), (1512, "1.512"), (-1000, "-1"), (0, "0")])
def test_scalars_print_as_in_mesos(thousandths: int, text: str) -> None:
    assert scalar_text(thousandths) == text


@pytest.mark.parametrize("gpus", [0.5, 0.1, 1.001, 8.001, 15.999])
def test_a_fraction_of_a_gpu_is_refused_in_mesos_words(gpus: float) -> None:
    assert validate_gpus(Resources.from_json([scalar("gpus", gpus)])) == (
        "Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"
    )


def test_whole_gpus_pass_and_so_does_what_rounds_to_a_whole_one() -> None:
    assert validate_gpus(Resources.from_json([scalar("gpus", 2)])) is None
    assert validate_gpus(Resources.from_json([scalar("gpus", 1.0001)])) is None
    assert validate_gpus(Resources.from_json([scalar("gpus", 0.5), scalar("gpus", 0.5)])) is None


def test_a_negative_scalar_is_refused_in_recorded_words() -> None:
    problem = validate([scalar("gpus", -1, allocation_info={"role": "slave_public"})])
    assert problem == "Resource 'gpus(allocated: slave_public):-1' is invalid: Invalid scalar resource: value <= 0"


@pytest.mark.parametrize(
    "document",
    [
        {"name": "", "type": "SCALAR", "scalar": {"value": 1}},
        {"name": "cpus", "type": "SCALAR"},
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": "1"}},
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": float("nan")}},
        {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 5, "end": 1}]}},
        {"name": "x", "type": "TEXT", "text": {"value": "a"}},
        {"type": "SCALAR", "scalar": {"value": 1}},
        scalar("cpus", 0.0004),
    ],
)
def test_what_mesos_would_refuse_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BadResources):
        Resources.from_json([document])


def test_resources_print_as_recorded() -> None:
    text = "cpus:0.1;mem:32;gpus:9;ports:[31000-32000]"
    assert str(Resources.parse(text).allocated("slave_public")) == (
        "cpus(allocated: slave_public):0.1; mem(allocated: slave_public):32; gpus(allocated: slave_public):9; "
        "ports(allocated: slave_public):[31000-32000]"
    )
    assert str(Resources()) == "{}"


def test_the_flag_text_reads_roles_ranges_and_sets() -> None:
    bag = Resources.parse("cpus:2;gpus(ml):1;gpus:1;ports:[31000-31001, 31002-31005];racks:{a,b}", "slave_public")
    assert bag.gpus == 2
    assert bag.reserved("ml").gpus == 1
    assert bag.reserved_roles() == ("ml", "slave_public")
    assert bag.ports == ((31000, 31005),)
    assert Resources.parse('[{"name":"cpus","type":"SCALAR","scalar":{"value":2}}]') == Resources.parse("cpus:2")


@pytest.mark.parametrize("text", ["cpus", "cpus:", "cpus:x", "ports:[5-1]", "ports:[1]", ":2", "[{]", "cpus:-1"])
def test_bad_flag_text_is_refused(text: str) -> None:
    with pytest.raises(BadResources):
        Resources.parse(text)


def test_the_summary_always_shows_the_four_names() -> None:
    assert Resources.parse("cpus:1.5;ports:[1-2];gpus(ml):1;gpus:1").summary() == {
        "cpus": 1.5,
        "gpus": 2.0,
        "mem": 0,
        "disk": 0,
        "ports": "[1-2]",
    }


@given(bags, st.lists(st.tuples(bags, st.sampled_from([None, "ml", "web"])), max_size=4))
def test_what_is_taken_is_gone_whoever_it_is_allocated_to(bag: Resources, taken: list[tuple[Resources, Any]]) -> None:
    volume = {"persistence": {"id": "v"}, "volume": {"container_path": "v", "mode": "RW"}}
    shared = Resource.from_json(
        scalar("disk", 6, reservations=[{"role": "ml", "type": "DYNAMIC"}], disk=volume, shared={})
    )
    bag = bag + Resources([shared])
    held = [part.allocated(role) for part, role in taken] + [Resources([shared]).allocated("ml")] * (len(taken) % 2)
    expected = bag
    for part in held:
        expected = expected - part.unallocated()
    left = bag.without(*held)
    assert left == expected
    assert [str(one) for one in left] == [str(one) for one in expected]


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", 0, 1, True, 2.5, -1.0, float("nan"), float("inf"), 1e15, 4e-4, [], {}, {"value": 3}]
)
PLAIN = st.fixed_dictionaries(
    {
        "name": st.one_of(st.sampled_from(["cpus", "gpus"]), ODD),
        "type": st.sampled_from(["SCALAR", "RANGES", "scalar"]),
    },
    optional={
        "scalar": st.one_of(ODD, st.fixed_dictionaries({"value": st.one_of(ODD, st.floats(), st.floats(0, 1e6))})),
        "role": st.sampled_from(["*", "ml", ""]),
        "allocation_info": st.sampled_from([{"role": "ml"}, {}, None]),
        "disk": st.just({}),
        "reservations": st.sampled_from([[], [{"type": "DYNAMIC", "role": "ml"}]]),
        "ranges": st.just({}),
        "revocable": st.just({}),
    },
)


@given(PLAIN)
def test_what_is_read_in_short_is_what_is_read_at_length_and_is_right(document: dict[str, Any]) -> None:
    plain = Resource.plain(document)
    if plain is not None:
        assert plain == Resource.from_json(document)
        assert not plain.empty
        assert (value_problem(document), disk_problem(document), reservations_problem(document)) == (None, None, None)


def test_a_plain_scalar_is_read_in_short() -> None:
    document = {"name": "cpus", "type": "SCALAR", "scalar": {"value": 2.5}, "role": "*"}
    assert Resource.plain(document) == Resource("cpus", 2500)
    assert Resource.plain({**document, "allocation_info": {"role": "ml"}}) == Resource("cpus", 2500, (), Role("ml"))
    assert Resource.plain({**document, "role": "ml"}) is None


def test_what_nobody_has_is_the_same_bag_each_time() -> None:
    bag = Resources.parse("cpus:2;gpus:1")
    given_out = bag.allocated(Role("ml"))
    assert bag.unallocated() is bag
    assert given_out.unallocated() == bag
    assert given_out.unallocated() is given_out.unallocated()
    assert Resources().unallocated() == Resources()
    assert all(each is not bag for each in gc.get_referents(bag)), "it goes without the garbage collector"
