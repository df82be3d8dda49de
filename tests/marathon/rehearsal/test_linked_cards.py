"""Which GPUs a plan foresees for a task, and whether they share NVLink."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.api.plan import shown
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.rehearsal.machines import Machine
from mesos_gpu.marathon.rehearsal.rehearsing import rehearse
from mesos_gpu.marathon.state.events import Moment, PutApps
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import SETTINGS, T0, Run, app

PAIRS = (("gpu_nvlink", "0-1/2-3"),)


def planned(*apps: dict[str, Any], attributes: tuple[tuple[str, str], ...] = PAIRS, gpus: int = 4) -> dict[str, Any]:
    run = Run()
    run.subscribe()
    free = Resources.parse(f"cpus:8;mem:8192;gpus:{gpus};ports:[31000-32000]")
    machine = Machine(AgentId("S0"), "h0", free, attributes=attributes)
    moment = Moment(T0, ids_from("ffffffff-0000-0000-0000-000000000000"))
    events = [PutApps([each], f"D{at}") for at, each in enumerate(apps)]
    settings = SETTINGS.__class__(rules=SETTINGS.rules, gpu_behaviour=GpuBehaviour.UNRESTRICTED)
    return shown(rehearse(run.state, events, [machine], settings, moment))


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
