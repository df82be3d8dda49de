"""What a master keeps back of what was refused."""

from __future__ import annotations

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.rehearsal.refusals import Refusals
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import offer

AGENT, OTHER, ROLE = AgentId("S0"), AgentId("S1"), Role("ml")
SOME, LESS, MORE = (Resources.parse(text) for text in ("cpus:2;gpus:1", "cpus:1", "cpus:2;gpus:2"))


def test_an_offer_is_kept_back_until_then_while_it_has_no_more_than_was_refused() -> None:
    refusals = Refusals(())
    refusals.refused(AGENT, ROLE, SOME.allocated(ROLE), 10.0)
    for resources, now_s, kept in ((SOME, 9.9, True), (LESS, 0.0, True), (MORE, 0.0, False), (SOME, 10.0, False)):
        assert refusals.keep_back(AGENT, ROLE, resources, now_s) is kept
    assert not refusals.keep_back(AGENT, Role("other"), SOME, 0.0)
    assert not refusals.keep_back(OTHER, ROLE, SOME, 0.0)
    assert refusals.ends_s(0.0, 10.0) == [10.0]
    assert refusals.ends_s(10.0, 20.0) == refusals.ends_s(0.0, 5.0) == []


def test_asking_for_offers_brings_all_of_it() -> None:
    refusals = Refusals(())
    assert not refusals.lift(0.0)
    refusals.refused(AGENT, ROLE, SOME, 10.0)
    other = refusals.copy()
    assert refusals.lift(5.0)
    assert not refusals.keep_back(AGENT, ROLE, SOME, 5.0)
    assert other.keep_back(AGENT, ROLE, SOME, 5.0)
    assert not other.lift(10.0), "it would have come by itself"


def test_what_a_state_remembers_is_kept_back() -> None:
    known = Offer.from_json(offer("O1", agent="S0", cpus=2, gpus=1))
    refusals = Refusals([(known, 0.0, 10.0)])
    assert refusals.keep_back(AGENT, known.role, known.resources, 5.0)
