"""The life of an instance."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.model.instances import NEXT_PHASE, Cause, IllegalTransition, Instance, Phase, cause_of, moved
from mesos_gpu.marathon.model.task_ids import app_of, instance_of, new_instance_id

UUID = "9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f"
INSTANCE = Instance(f"a.instance-{UUID}", "/a", "v", "*", 1.0)


@pytest.mark.parametrize(("phase", "cause"), list(product(Phase, Cause)))
def test_each_pair_of_phase_and_cause_is_in_the_table_or_illegal(phase: Phase, cause: Cause) -> None:
    instance = replace(INSTANCE, phase=phase)
    if (phase, cause) in NEXT_PHASE:
        assert moved(instance, cause, 5.0).phase is NEXT_PHASE[phase, cause]
    else:
        with pytest.raises(IllegalTransition, match=phase.value):
            moved(instance, cause, 5.0)


def test_an_active_instance_takes_every_news_of_its_task() -> None:
    news = [cause for cause in Cause if cause.name.startswith("TASK_")]
    active = [phase for phase in Phase if phase not in (Phase.SCHEDULED, Phase.ENDED)]
    assert all((phase, cause) in NEXT_PHASE for phase in active for cause in news)


def test_late_news_never_takes_an_instance_back() -> None:
    order = [Phase.PROVISIONED, Phase.STAGING, Phase.STARTING, Phase.RUNNING, Phase.KILLING]
    for (phase, cause), then in NEXT_PHASE.items():
        if phase in order and then in order and cause is not Cause.LAUNCHED:
            assert order.index(then) >= order.index(phase)


def test_an_instance_remembers_since_when_it_is_in_its_phase() -> None:
    launched = moved(INSTANCE, Cause.LAUNCHED, 5.0)
    assert launched.since_s == 5.0
    running = moved(launched, Cause.TASK_RUNNING, 6.0)
    assert moved(running, Cause.TASK_RUNNING, 7.0).since_s == 6.0


def test_ids_lead_back_to_app_and_instance() -> None:
    instance_id = new_instance_id("/prod/web", UUID)
    assert instance_id == f"prod_web.instance-{UUID}"
    task_id = Instance(instance_id, "/prod/web", "v", "*", 1.0).next_task_id
    assert task_id == f"{instance_id}._app.1"
    assert instance_of(task_id) == instance_id
    assert app_of(task_id) == "/prod/web"


@pytest.mark.parametrize("task_id", ["", "x", "never-was", "a.instance-1", f"a.instance-{UUID}", "a.1234._app.1"])
def test_ids_of_others_are_not_taken_for_ours(task_id: str) -> None:
    assert instance_of(task_id) is None


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("TASK_STAGING", None, Cause.TASK_STAGING),
        ("TASK_STARTING", None, Cause.TASK_STARTING),
        ("TASK_RUNNING", None, Cause.TASK_RUNNING),
        ("TASK_KILLING", None, Cause.TASK_KILLING),
        ("TASK_UNREACHABLE", None, Cause.TASK_UNREACHABLE),
        ("TASK_UNKNOWN", None, Cause.TASK_ENDED),
        ("TASK_FINISHED", None, Cause.TASK_ENDED),
        ("TASK_GONE_BY_OPERATOR", None, Cause.TASK_ENDED),
        ("TASK_LOST", "REASON_INVALID_OFFERS", Cause.TASK_ENDED),
        ("TASK_LOST", "REASON_RECONCILIATION", Cause.TASK_UNREACHABLE),
        ("TASK_LOST", "REASON_SLAVE_REMOVED", Cause.TASK_UNREACHABLE),
    ],
)
def test_task_states_mean_causes(state: str, reason: str | None, cause: Cause) -> None:
    assert cause_of(state, reason) is cause


def test_a_state_that_mesos_has_not_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="TASK_DANCING"):
        cause_of("TASK_DANCING", None)
