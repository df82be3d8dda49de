"""Units that an agent offers while containers hold some for tasks that have ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.offered_units import lingering_parts, with_offered
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.support.agent.documents import IDENTITY, at, new_state, run, scalar
from tests.support.agent.hosting import AWARE, hosted
from tests.support.sharing.parts import part

X = "example.com/x"
OWN = Resources.parse("cpus:4")


def with_unit(task: dict[str, Any]) -> dict[str, Any]:
    return {**task, "resources": [*task["resources"], scalar(X, 1.0)]}


def test_what_a_task_left_in_its_executor_is_not_offered_until_that_gives_it_back() -> None:
    state = new_state()
    handle(state, run(with_unit(hosted("t1")), info=AWARE), at())
    handle(state, run(hosted("t2"), info=AWARE, launch_executor=False), at())
    (executor,) = state.frameworks.executors()
    assert executor.container_id is not None
    held = {executor.container_id: {X: ["a"]}}

    def offered(units: int) -> float:
        return with_offered(OWN, {X: units}, held, state, Resources(())).value(X)

    assert offered(3) == 3
    (first,) = [task for task in state.frameworks.tasks() if task.key.task == "t1"]
    first.phase = Phase.OVER
    assert offered(3) == 2
    assert offered(1) == 0
    held.clear()
    assert offered(3) == 3


def test_a_container_that_nobody_knows_any_more_pays_for_nothing() -> None:
    held = {ContainerId("gone"): {X: ["a", "b"]}}
    total = with_offered(OWN, {X: 3}, held, new_state(), Resources(()))
    assert (total.value(X), total.value("cpus")) == (1, 4)


def test_a_part_that_a_pod_holds_for_a_task_that_has_ended_is_not_offered_while_others_of_it_run() -> None:
    cards = {1: SharedCard(1, "GPU-1", 15109, 25)}
    state = new_state(identity=replace(IDENTITY, shared_cards=cards, default_executor=("x",)))
    tasks = [
        hosted(f"t{number}", kind="DEFAULT") | {"resources": part(1, number, number, first=4 * number)}
        for number in (1, 2)
    ]
    handle(state, run(*tasks, info=AWARE, group=True), at())
    (executor,) = state.frameworks.executors()
    whole = Share((CardPart(1, 3, 3),), group=True)
    shares = {executor.container_id: whole}
    assert lingering_parts(state, shares) == [CardPart(1, 0, 0)]
    assert lingering_parts(state, {}) == []
    first, second = sorted(state.frameworks.tasks(), key=lambda task: task.key.task)
    first.phase = Phase.OVER
    assert lingering_parts(state, shares) == [CardPart(1, 1, 1)]
    assert lingering_parts(state, {executor.container_id: whole.moved(())}) == [], "it holds nothing just now"
    second.phase = Phase.OVER
    assert lingering_parts(state, shares) == [], "it is about to end"
