"""The smallest change that would start what waits in order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from mesos_gpu.marathon.simulation.smallest_change import advise
from mesos_gpu.marathon.why.change import Change, read_change
from mesos_gpu.placement.demand import WHOLE, Machine
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon import advice
from tests.support.marathon.advice import FIRST, advice_holds, main
from tests.support.marathon.stuck_in_order import ME, Cluster, stuck_cluster

KNOWN = (562, 684, 720, 867, 918, 1018, 1055, 1160, 1174, 1206)
KNOWN_PLAIN = (535, 692, 701, 720, 785, 827, 948, 1021)
"""Seeds of clusters on which an app once did not start by what was advised, or nothing was."""


@pytest.mark.slow
@pytest.mark.proof("mesos_gpu/marathon", "mesos_gpu/master", "mesos_gpu/placement", "mesos_gpu/queueing")
@pytest.mark.timeout(900)
def test_what_is_advised_starts_the_app_and_no_smaller_change_does() -> None:
    """Advice is held against the cores of a master and a Marathon, and against every other change."""
    for seed in range(FIRST, FIRST + examples(50)):
        advice_holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KNOWN)
def test_known_clusters(seed: int) -> None:
    advice_holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KNOWN_PLAIN)
def test_known_clusters_of_one_role(seed: int) -> None:
    advice_holds(seed, plain=True)


def test_a_range_of_clusters_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--from", "606", "--to", "606"]) == 0
    *_, clusters, kinds = capsys.readouterr().out.splitlines()
    assert clusters == "2 clusters (seeds 606 to 606, roles and plain): 0 failed"
    assert kinds.startswith("steps advised: ")


def test_a_cluster_for_which_advice_does_not_hold_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, "advise", lambda scenario, app_id: None)
    assert main(["--from", "606", "--to", "606", "--generator", "plain"]) == 1
    said = capsys.readouterr().out
    assert "AssertionError: seed 606: nothing is advised" in said
    assert said.endswith("failed: plain 606\n")


def cluster(*apps: dict[str, Any], machines: int = 3, gpus: int = 4) -> Cluster:
    found = Cluster({f"m{at}": Machine(8000, 16384, (WHOLE,) * gpus) for at in range(machines)})
    for document in apps:
        found.put({"cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": [], "role": "team", **document})
    return found


def advised(found: Cluster) -> Change:
    change = advise(found.scenario(), ME)
    assert change is not None
    return change


def test_a_gang_is_told_to_be_smaller_before_machines_are_bought(golden: Golden) -> None:
    gang = {"id": ME, "gpus": 4, "instances": 4, "gang": {"size": 4}}
    change = advised(cluster(gang))
    assert [step.text for step in change.steps] == golden
    assert (change.agent, change.measure) == ("m0, m1, m2", (0, 1, 0, 0, Fraction(1, 4)))


def test_a_gang_whose_members_fit_on_no_machine_is_told_to_ask_for_fewer_gpus(golden: Golden) -> None:
    change = advised(cluster({"id": ME, "gpus": 6, "instances": 3, "gang": {"size": 3}}))
    assert [step.text for step in change.steps] == golden


def test_machines_are_added_where_nothing_else_would_do(golden: Golden) -> None:
    gang = {"id": ME, "gpus": 16, "instances": 2, "gang": {"size": 2}}
    change = advised(cluster(gang))
    assert ([step.text for step in change.steps], change.measure[0]) == (golden, 2)


def test_what_waits_behind_a_gang_may_go_before_it_when_it_says_that_it_ends_in_time() -> None:
    # Two machines are busy for an hour, and the third is kept for the gang.
    busy = {"id": "/busy", "gpus": 4, "instances": 2, "maxRuntimeSeconds": 3600}
    gang = {"id": "/gang", "gpus": 4, "instances": 3, "gang": {"size": 3}, "priority": 3}
    found = cluster(busy, gang, {"id": ME, "gpus": 1, "priority": -100})
    (step,) = advised(found).steps
    # Whole minutes, less what has passed of the hour, with some room.
    assert (step.kind, step.value in (3420, 3480)) == ("runtime", True)
    assert found.started_by([step])


def test_what_waits_behind_another_is_told_how_much_priority_is_enough(golden: Golden) -> None:
    busy = {"id": "/busy", "gpus": 4, "instances": 2, "maxRuntimeSeconds": 3600}
    gang = {"id": "/gang", "gpus": 4, "instances": 3, "gang": {"size": 3}, "priority": 3}
    change = advised(cluster(busy, gang, {"id": ME, "gpus": 1}))
    assert [step.text for step in change.steps] == golden


def test_what_gives_way_counts_as_what_ends() -> None:
    cheap = {"id": "/cheap", "gpus": 4, "instances": 3, "preemptible": True, "priority": 1}
    change = advised(cluster(cheap, {"id": ME, "gpus": 4, "instances": 2, "gang": {"size": 2}}))
    # Fewer instances of the other would be two, too, and are said to be; points of priority are more.
    assert change.measure[:3] == (0, 1, 2)
    assert [step.kind for step in change.steps] == ["scale"]
    assert read_change(change.document()).measure[:4] == change.measure[:4]


def test_a_quota_is_raised_by_what_lacks(golden: Golden) -> None:
    found = cluster({"id": "/other", "gpus": 2, "priority": 1})
    found.limit("team", {"gpus": 2000})
    found.put({"id": ME, "cmd": "sleep 1000", "cpus": 1, "mem": 128, "gpus": 2, "role": "team", "priority": 1})
    (step,) = advised(found).steps
    # Of its three machines' twelve GPUs ten are free: less might go to the wrong ones.
    assert (step.kind, step.amounts) == ("quota", {"gpus": 12000})
    assert step.text == golden
    assert found.started_by([step])


def test_a_quota_is_not_enough_where_others_give_way_and_offers_are_cut_short_by_it_then() -> None:
    # Two machines and a little more of the quota would do, but for what /web/other0 gives up on a third.
    found = stuck_cluster(699)
    change = advised(found)
    assert [step.kind for step in change.steps] == ["quota", "add"]
    assert found.started_by(change.steps), change.text


def test_nothing_is_advised_for_what_runs_or_is_not_there() -> None:
    found = cluster({"id": ME, "gpus": 4, "instances": 2, "gang": {"size": 2}})
    assert advise(found.scenario(), ME) is None
    assert advise(found.scenario(), "/none") is None
