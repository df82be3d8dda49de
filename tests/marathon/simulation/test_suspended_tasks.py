"""A plan plays suspensions as agents do them: for apps of higher priority, and for parts of high priority."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.api.plan import shown
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.simulation.dry_run import DryRun, dry_run
from mesos_gpu.marathon.state.events import Event, PutApps, RemoveApp
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, status
from tests.support.marathon.suspending import CHEAP, DEAR, HIGH, PART, SHARED, card_offered, running, word

CARDS = (("gpu_shared_cards", "0=GPU-a/16/watcher"),)
REST = "cpus:3;mem:4000;disk:1000;ports:[31000-32000]"


def machine(free: str, used: str, *, shared: bool = False) -> Machine:
    parsed = Resources.parse(f"{REST};{free}" if free else REST)
    return Machine(AgentId("S1"), "h1", parsed, Resources.parse(used), attributes=CARDS if shared else ())


def plan(run: Run, at: Machine, *events: Event) -> DryRun:
    return dry_run(run.state, events, [at], SHARED, run.moment)


def whole(cheap: dict[str, Any] = CHEAP) -> Run:
    """Return a run in which an app has the only GPU."""
    return running(cheap)[0]


def parted() -> Run:
    """Return a run in which an app has 10 of the 16 GiB of the only card."""
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(PART)
    card_offered(run, "O1", (0, 15), (0, 24))
    (task,) = run.tasks("/part")
    run.do(status(task))
    return run


WHOLE = machine("", "cpus:0.1;mem:32;gpus:1")
PARTED = machine("gpu_mem:[10-15];gpu_slices:[2-24]", "cpus:0.1;mem:32;gpu_mem:[0-9];gpu_slices:[0-1]", shared=True)


def test_a_gpu_is_put_away_for_an_app_of_higher_priority(golden: Golden) -> None:
    found = plan(whole(), WHOLE, PutApps((DEAR,), "d"))
    assert [(one.app, one.host, one.gpus) for one in found.suspends] == [("/cheap", "h1", 1)]
    assert ([one.app for one in found.starts], found.ends, found.waits) == (["/dear"], (), ())
    told = shown(found)
    assert told["summary"] == golden
    assert told["suspends"] == [{"app": "/cheap", "host": "h1", "instances": 1, "gpus": 1}]


def test_without_the_label_it_gives_way_and_waits(golden: Golden) -> None:
    found = plan(whole(CHEAP | {"labels": {}}), WHOLE, PutApps((DEAR,), "d"))
    assert (found.suspends, [(one.app, one.why) for one in found.ends]) == ((), [("/cheap", golden)])


def test_a_part_is_put_away_for_one_of_high_priority_and_for_no_other() -> None:
    found = plan(parted(), PARTED, PutApps((HIGH,), "d"))
    assert [one.app for one in found.suspends] == ["/part"]
    assert [one.app for one in found.starts] == ["/high"]
    assert (found.ends, found.waits) == ((), ())
    low = HIGH | {"gpuShare": {"memGiB": 8}}
    found = plan(parted(), PARTED, PutApps((low,), "d"))
    assert (found.suspends, found.starts, [one.app for one in found.waits]) == ((), (), ["/high"])
    large = HIGH | {"gpuShare": {"memGiB": 17, "highPriority": True}}
    assert plan(parted(), PARTED, PutApps((large,), "d")).suspends == ()


def test_a_part_that_ends_is_free_for_who_takes_its_place() -> None:
    change = PART | {"gpuShare": {"memGiB": 12}, "upgradeStrategy": {"minimumHealthCapacity": 0.0}}
    found = plan(parted(), PARTED, PutApps((change,), "d"))
    assert ([one.app for one in found.starts], found.waits, found.done) == (["/part"], (), True)


@pytest.mark.parametrize("free", ["gpus:1", ""])
def test_what_is_suspended_already_gives_nothing_back_when_it_ends(free: str) -> None:
    run = whole()
    (task,) = run.tasks("/cheap")
    run.do(word(task, "suspended: by hand"))
    at = replace(machine(free, "cpus:0.1;mem:32;gpus:1"))
    found = plan(run, at, RemoveApp("/cheap", "d1"), PutApps((DEAR | {"instances": 2},), "d2"))
    assert sum(one.app == "/dear" for one in found.starts) == (1 if free else 0)
