"""What operations make of resources: never a thousandth more or less, and back again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.conversions import SPECULATIVE, Conversion, applied, conversions, unallocated, with_kept
from mesos_gpu.mesos.resource import Reservation, Resource
from mesos_gpu.mesos.resources import Resources, validate

FLAGS = Resources.parse("cpus:4;gpus:4;gpus(ml):2;mem:4096;disk:1000;disk(ml):500;ports:[31000-31009]")
NAMES = ("cpus", "gpus", "mem", "disk")
OPS = Reservation("ops", "DYNAMIC", "alice")
ML = Reservation("ml", "DYNAMIC")
BELOW = Reservation("ml/train", "DYNAMIC", None, '{"labels": [{"key": "k", "value": "v"}]}')


def document(resource: Resource) -> dict[str, Any]:
    return resource.to_json(refined=True)


def reserve(*resources: Resource) -> dict[str, Any]:
    return {"type": "RESERVE", "reserve": {"resources": [document(r) for r in resources]}}


def volume(amount: int, name: str = "v", **more: Any) -> Resource:
    persistence = {"id": name, **more}
    disk = {"persistence": persistence, "volume": {"mode": "RW", "container_path": "data"}}
    shown = {"name": "disk", "type": "SCALAR", "scalar": {"value": amount / 1000}, "disk": disk}
    return Resource.from_json({**shown, "reservations": [{"type": "DYNAMIC", "role": "ml"}]})


def quantities(resources: Resources) -> dict[str, int]:
    return {name: resources.milli(name) for name in NAMES} | {"ports": sum(e - b + 1 for b, e in resources.ports)}


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "refine", "create", "undo", "grow", "shrink"]),
        st.sampled_from(NAMES),
        st.integers(1, 5000),
        st.integers(0, 5),
    ),
    max_size=25,
)


@given(steps)
def test_no_sequence_of_operations_makes_or_loses_a_thousandth(history: list[tuple[str, str, int, int]]) -> None:
    now = FLAGS
    undo: list[dict[str, Any]] = []
    for count, (what, name, amount, pick) in enumerate(history):
        operation = operation_for(now, what, name, amount, pick, f"v{count}")
        if operation is None:
            continue
        before = now
        try:
            now = applied(now, conversions(operation))
        except BadResources:
            assert now is before
            continue
        assert quantities(now) == quantities(FLAGS)
        assert with_kept(FLAGS, now.kept()) == now, "flags and checkpoint say it all"
        undo.append(inverse(operation))
    for operation in reversed(undo):
        now = applied(now, conversions(operation))
    assert now == FLAGS


def operation_for(now: Resources, what: str, name: str, amount: int, pick: int, fresh: str) -> dict[str, Any] | None:
    plain = [r for r in now if r.name == name and not r.reservations]
    reserved = [r for r in now if r.role == "ml" and r.persistence_id is None]
    volumes = [r for r in now if r.persistence_id is not None]
    if what == "reserve" and plain:
        return reserve(Resource(name, amount).pushed((ML, OPS)[pick % 2]))
    if what == "refine" and reserved:
        one = reserved[pick % len(reserved)]
        return reserve(Resource(one.name, amount, one.reservations).pushed(BELOW))
    if what == "create" and any(r.dynamic and r.name == "disk" for r in reserved):
        return {"type": "CREATE", "create": {"volumes": [document(volume(amount, fresh))]}}
    if what == "grow" and volumes:
        grown = volumes[pick % len(volumes)]
        more = document(Resource("disk", amount, grown.reservations))
        return {"type": "GROW_VOLUME", "grow_volume": {"volume": document(grown), "addition": more}}
    if what == "shrink" and volumes:
        less = {"value": amount / 1000}
        one = volumes[pick % len(volumes)]
        return {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": document(one), "subtract": less}}
    return None


def inverse(operation: dict[str, Any]) -> dict[str, Any]:
    body = operation[operation["type"].lower()]
    if operation["type"] == "RESERVE":
        return {"type": "UNRESERVE", "unreserve": body}
    if operation["type"] == "CREATE":
        return {"type": "DESTROY", "destroy": body}
    changed = next(iter(c for c in conversions(operation)[0].converted if c.persistence_id is not None))
    if operation["type"] == "GROW_VOLUME":
        return {
            "type": "SHRINK_VOLUME",
            "shrink_volume": {"volume": document(changed), "subtract": body["addition"]["scalar"]},
        }
    back = document(Resource("disk", round(body["subtract"]["value"] * 1000), changed.reservations))
    return {"type": "GROW_VOLUME", "grow_volume": {"volume": document(changed), "addition": back}}


def test_what_is_not_there_is_said_in_recorded_words() -> None:
    left = Resources([*Resources.parse("cpus:2;gpus:4").allocated("slave_public")])
    asked = Resource("cpus", 99000, (Reservation("slave_public", "DYNAMIC"),), "slave_public")
    operation = {"type": "UNRESERVE", "unreserve": {"resources": [document(asked)]}}
    with pytest.raises(BadResources) as refused:
        applied(left, conversions(operation))
    assert str(refused.value) == (
        "cpus(allocated: slave_public):2; gpus(allocated: slave_public):4 does not contain "
        "cpus(allocated: slave_public)(reservations: [(DYNAMIC,slave_public)]):99"
    )


def test_a_volume_is_taken_whole_or_not_at_all() -> None:
    bag = Resources([volume(64000)])
    assert bag.contains(Resources([volume(64000)]))
    assert not bag.contains(Resources([volume(32000)]))
    assert not bag.contains(Resources([volume(64000, "other")]))


def test_how_a_task_mounts_a_volume_does_not_make_it_another_one() -> None:
    kept = volume(64000, principal="alice")
    disk = {"persistence": {"id": "v"}, "volume": {"mode": "RO", "container_path": "/elsewhere"}}
    asked = Resource.from_json({**document(kept), "disk": disk})
    assert asked.key == kept.key
    assert Resources([kept]).contains(Resources([asked]))
    assert Resources([kept]) - Resources([asked]) == Resources()


def test_a_volume_prints_as_in_mesos() -> None:
    assert str(volume(64000)) == "disk(reservations: [(DYNAMIC,ml)])[v:data]:64"


def test_an_operation_that_converts_nothing_is_refused() -> None:
    assert "LAUNCH" not in SPECULATIVE
    with pytest.raises(BadResources, match="LAUNCH"):
        conversions({"type": "LAUNCH"})


def test_a_reservation_may_be_exchanged_for_another_in_one_step() -> None:
    mine, theirs = Resource("gpus", 2000, (ML,)), Resource("gpus", 2000, (OPS,))
    body = {"resources": [document(theirs)], "source": [document(mine)]}
    (change,) = conversions({"type": "RESERVE", "reserve": body})
    assert change == Conversion(Resources([mine]), Resources([theirs]))
    body["source"] = [document(Resource("gpus", 1000, (ML,)))]
    with pytest.raises(BadResources):
        conversions({"type": "RESERVE", "reserve": body})


def test_what_was_kept_must_be_part_of_what_the_flags_say() -> None:
    with pytest.raises(BadResources, match="does not contain gpus:5"):
        with_kept(FLAGS, Resources([Resource("gpus", 5000, (ML,))]))


def test_changes_of_an_agent_are_allocated_to_nobody() -> None:
    (change,) = conversions(reserve(Resource("gpus", 1000, (ML,), "ml")))
    (own,) = unallocated([change])
    assert str(own.consumed) == "gpus:1"
    assert str(own.converted) == "gpus(reservations: [(DYNAMIC,ml)]):1"


@pytest.mark.parametrize("bad", [0.0, 64.0, 65.0])
def test_a_volume_does_not_shrink_to_nothing(bad: float) -> None:
    body = {"volume": document(volume(64000)), "subtract": {"value": bad}}
    with pytest.raises(BadResources):
        conversions({"type": "SHRINK_VOLUME", "shrink_volume": body})


def test_endpoints_show_both_formats_and_a_refined_one_in_the_new_alone() -> None:
    dynamic = Resource("gpus", 1000, (Reservation("slave_public", "DYNAMIC"),))
    assert dynamic.to_json(shown=True) == {
        "name": "gpus",
        "type": "SCALAR",
        "scalar": {"value": 1.0},
        "role": "slave_public",
        "reservation": {},
        "reservations": [{"type": "DYNAMIC", "role": "slave_public"}],
    }
    assert Resource("gpus", 1000).to_json(shown=True)["role"] == "*"
    refined = dynamic.pushed(Reservation("slave_public/a", "DYNAMIC")).to_json(shown=True)
    assert "role" not in refined
    assert [r["role"] for r in refined["reservations"]] == ["slave_public", "slave_public/a"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"reservation": {}}, "cannot be dynamically reserved"),
        ({"reservations": [{"type": "DYNAMIC", "role": "*"}]}, "cannot be reserved"),
        (
            {"reservations": [{"type": "STATIC", "role": "a"}, {"type": "DYNAMIC", "role": "b"}]},
            "role 'b' is not a refinement of 'a'",
        ),
        (
            {"reservations": [{"type": "STATIC", "role": "a"}, {"type": "STATIC", "role": "a/b"}]},
            "A refined reservation cannot be STATIC",
        ),
        ({"role": "a", "reservation": {"type": "DYNAMIC"}}, "'Resource.ReservationInfo.type' must not be set"),
        ({"role": "/a"}, "cannot start with a slash"),
        ({"reservations": [{"role": "a"}]}, "'Resource.ReservationInfo.type' field must be set."),
        ({"role": "b", "reservations": [{"type": "STATIC", "role": "a"}]}, "'Resource.role' field with 'b' does not"),
        ({"role": "a", "reservation": {}, "reservations": [{"type": "STATIC", "role": "a"}]}, "is STATIC"),
        (
            {"role": "a", "reservations": [{"type": "STATIC", "role": "a"}, {"type": "DYNAMIC", "role": "a/b"}]},
            "if there is more than one reservation",
        ),
        (
            {
                "role": "a",
                "reservation": {"principal": "p"},
                "reservations": [{"type": "DYNAMIC", "role": "a", "principal": "q"}],
            },
            "field with 'p' does not match the principal 'q'",
        ),
        ({"reservations": [{"type": "UNKNOWN", "role": "a"}]}, "Unsupported 'Resource.ReservationInfo.Type'"),
        ({"disk": {}}, "DiskInfo should not be set for gpus resource"),
        (
            {"reservation": {}, "reservations": [{"type": "DYNAMIC", "role": "a"}]},
            "must either be both set or both not set",
        ),
    ],
)
def test_a_stack_of_reservations_that_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    problem = validate([{"name": "gpus", "type": "SCALAR", "scalar": {"value": 1}, **more}])
    assert problem is not None
    assert words in problem


def test_only_what_is_reserved_can_be_unreserved() -> None:
    with pytest.raises(BadResources, match="gpus:1 is not reserved"):
        conversions({"type": "UNRESERVE", "unreserve": {"resources": [document(Resource("gpus", 1000))]}})


def test_a_volume_is_not_taken_for_an_amount_of_disk() -> None:
    bag = Resources([volume(64000), Resource("disk", 32000, (ML,))])
    assert bag.find("disk", 64000, ["ml"]) is None
    assert bag.find("disk", 32000, ["ml"]) == Resources([Resource("disk", 32000, (ML,))])
