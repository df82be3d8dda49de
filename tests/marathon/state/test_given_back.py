"""What a gang refused is remembered for as long as the master refuses it for us, in which role that may have been."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.decisions.launching import next_launch_s
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.actions import Action, Decline, Launch, Revive
from mesos_gpu.marathon.state.events import Offered, Tick
from mesos_gpu.marathon.state.given_back import NO_CALLS, NOTHING_AWAITED, GivenBack, by_agent, in_all, lifted
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import SETTINGS, T0, Run, app, offer, only, status

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
