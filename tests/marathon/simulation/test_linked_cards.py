"""Which GPUs a plan foresees for a task, and whether they share NVLink."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.api.plan import shown
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.simulation.dry_run import dry_run
from mesos_gpu.marathon.simulation.scenario import Scenario
from mesos_gpu.marathon.simulation.smallest_change import advise
from mesos_gpu.marathon.simulation.start_estimate import estimate_start
from mesos_gpu.marathon.state.events import Moment, PutApps, PutPod
from mesos_gpu.marathon.why.links import Given
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import SETTINGS, T0, Run, app, container, pod

PAIRS = (("gpu_nvlink", "0-1/2-3"),)
UNRESTRICTED = SETTINGS.__class__(rules=SETTINGS.rules, gpu_behaviour=GpuBehaviour.UNRESTRICTED)


def planned(*apps: dict[str, Any], attributes: tuple[tuple[str, str], ...] = PAIRS, gpus: int = 4) -> dict[str, Any]:
    run = Run()
    run.subscribe()
    free = Resources.parse(f"cpus:8;mem:8192;disk:1000;gpus:{gpus};ports:[31000-32000]")
    machine = Machine(AgentId("S0"), "h0", free, attributes=attributes)
    moment = Moment(T0, ids_from("ffffffff-0000-0000-0000-000000000000"))
    events = [
        PutPod(each, f"D{at}") if "containers" in each else PutApps([each], f"D{at}") for at, each in enumerate(apps)
    ]

    return shown(dry_run(run.state, events, [machine], UNRESTRICTED, moment))


def cards(found: dict[str, Any]) -> list[Any]:
    return [one for start in found["starts"] for one in start.get("cards", [])]


def test_pairs_go_to_cards_that_share_nvlink_as_far_as_there_are_some() -> None:
    found = planned(app(gpus=2, instances=2))
    (start,) = found["starts"]
    assert start["instances"] == 2
    assert sorted(cards(found), key=str) == [{"indices": [0, 1], "nvlink": True}, {"indices": [2, 3], "nvlink": True}]


def test_three_of_two_pairs_do_not_all_share_nvlink() -> None:
    (one,) = cards(planned(app(gpus=3)))
    assert (len(one["indices"]), one["nvlink"]) == (3, False)


def test_what_starts_first_has_its_cards_when_the_next_is_foreseen() -> None:
    first, second = cards(planned(app("/a", gpus=1), app("/b", gpus=2)))
    assert first["nvlink"] is None
    assert second["nvlink"] is True
    assert not set(first["indices"]) & set(second["indices"])


def test_nothing_is_said_of_cards_where_no_agent_tells_of_links() -> None:
    assert cards(planned(app(gpus=2), attributes=())) == []
    # Five GPUs, of which the links of four are told.
    assert cards(planned(app(gpus=2), gpus=5)) == []


def two_each(pod_id: str, gpus: int) -> dict[str, Any]:
    return pod(pod_id, *(container(name, resources={"gpus": gpus}) for name in ("one", "two")))


def test_the_containers_of_a_pod_are_given_cards_together() -> None:
    assert cards(planned(two_each("/p", 1))) == [{"indices": [0, 1], "nvlink": True}]
    assert cards(planned(two_each("/p", 2))) == [{"indices": [0, 1, 2, 3], "nvlink": False}]


def test_a_pod_that_starts_first_has_its_cards_when_the_next_is_foreseen() -> None:
    found = planned(app("/a", gpus=1), two_each("/p", 1), app("/z", gpus=1))
    assert {start["app"]: start["cards"] for start in found["starts"]} == {
        "/a": [{"indices": [0], "nvlink": None}],
        "/p": [{"indices": [2, 3], "nvlink": True}],
        "/z": [{"indices": [1], "nvlink": None}],
    }


def waiting() -> tuple[Run, list[Machine], Any]:
    """A gang of two waits for machines of their own: of two one takes no tasks."""
    run = Run(settings=UNRESTRICTED)
    run.subscribe()
    run.put(app("/gang", gpus=2, instances=2, gang={"size": 2}))
    free = Resources.parse("cpus:8;mem:8192;gpus:4;ports:[31000-32000]")
    machines = [
        Machine(AgentId("S0"), "h0", free, attributes=PAIRS),
        Machine(AgentId("S1"), "h1", free, attributes=(("gpu_nvlink", "0-1-2-3"),), takes_tasks=False),
    ]
    return run, machines, Moment(T0, ids_from("ffffffff-0000-0000-0000-000000000000"))


def test_the_smallest_change_says_which_cards_a_gang_in_order_gets() -> None:
    run, machines, moment = waiting()
    change = advise(Scenario(run.state, machines, UNRESTRICTED, moment), "/gang")
    assert change is not None
    assert [step.kind for step in change.steps] == ["reactivate"]
    assert change.cards == (Given("h0", (0, 1), True), Given("h1", (0, 1), True))
    assert change.where == "h0, h1 (GPUs 0+1 on h0 share NVLink; 0+1 on h1 share NVLink)"


def test_when_says_which_cards_what_waits_in_order_gets() -> None:
    run, machines, moment = waiting()
    assert estimate_start(run.state, "/gang", machines, UNRESTRICTED, moment).starts == ()
    both = [machines[0], replace(machines[1], takes_tasks=True)]
    found = estimate_start(run.state, "/gang", both, UNRESTRICTED, moment)
    assert {(start.host, start.linked) for start in found.starts} == {("h0", True), ("h1", True)}
