"""What a task's name on the command line means."""

from __future__ import annotations

import pytest

from marathon_cli.clients.task_names import TaskRef, matching, one, short_ids
from mesos_gpu.errors import BadInput, NotFound
from tests.support.golden import Golden


def task(name: str, state: str = "TASK_RUNNING") -> TaskRef:
    return TaskRef(name, "S0", "F", state)


TRAIN = task("train.instance-1._app.1")
TRAINER = task("trainer.instance-2._app.1")
WEB = [task("team_web.instance-3._app.1"), task("team_web.instance-4._app.2")]
OLD = task("train.instance-0._app.1", "TASK_FAILED")
POD = task("team_pod.instance-5.sidecar")
TASKS = [OLD, TRAINER, TRAIN, *WEB, POD]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("train", [TRAIN, OLD]),
        ("/train", [TRAIN, OLD]),
        (TRAIN.id, [TRAIN]),
        ("traine", [TRAINER]),
        ("train.instance-1", [TRAIN]),
        ("/team/web", WEB),
        ("team_web", WEB),
        ("team/web", WEB),
        ("sidecar", [POD]),
        ("*.sidecar", [POD]),
        ("t*-[35]*", [POD, WEB[0]]),
        ("instance-4", [WEB[1]]),
        ("nothing", []),
        ("", []),
        ("*.nothing", []),
    ],
)
def test_a_name_is_an_id_an_app_a_pattern_a_begin_or_a_part(name: str, meant: list[TaskRef]) -> None:
    assert matching(TASKS, name) == meant


def test_one_is_the_running_one() -> None:
    assert one(TASKS, "train") == TRAIN
    assert one([OLD], "train", ended=True) == OLD


def test_of_runs_that_have_all_ended_the_last_is_meant(golden: Golden) -> None:
    ended = [
        TaskRef(name, "S0", "F", "TASK_FAILED", told_at=told_at)
        for name, told_at in ((OLD.id, 7.5), (TRAIN.id, 9.0), ("train.instance-2._app.1", 8.0))
    ]
    assert one(ended, "train", ended=True).id == TRAIN.id
    with pytest.raises(NotFound) as refused:
        one(ended, "train")
    assert str(refused.value) == golden
    both = [task(f"pod.instance-5.{container}", "TASK_FINISHED") for container in ("main", "sidecar")]
    with pytest.raises(BadInput) as refused:
        one(both, "pod", ended=True)
    assert str(refused.value) == golden
    assert one(both, "pod.instance-5.main", ended=True) == both[0]
    with pytest.raises(BadInput) as refused:
        one([ended[0], task("trainer.instance-9._app.1", "TASK_FAILED")], "tr*", ended=True)
    assert str(refused.value) == golden


def test_a_short_id_is_a_part_that_means_one_task() -> None:
    first = "673fb872-ad3f-5138-8c42-b3a5c4cd8433"
    near = "673fb872-ad3f-5138-8c42-b3a5c4cd8434"
    ids = [f"train.instance-{first}._app.1", f"web.{near}", "web.instance-3._app.1", "pod.instance-016f9fd5-ceff-53d2"]
    assert short_ids(ids[:1]) == ["673fb872"]
    assert short_ids(ids) == [first, near, *ids[2:]]
    tasks = [task(name) for name in ids]
    assert [one(tasks, short).id for short in short_ids(ids)] == ids
    pods = [f"pod.instance-{first}.{container}" for container in ("main", "mate")]
    assert short_ids(pods) == [f"{first}.mai", f"{first}.mat"]
    assert short_ids(["same", "same"]) == ["same", "same"]


def test_one_of_several_is_refused_with_the_candidates(golden: Golden) -> None:
    many = [task(f"web.instance-{n:02}._app.1") for n in range(12)]
    with pytest.raises(BadInput) as refused:
        one(many, "web")
    assert many[9].id in str(refused.value)
    assert many[10].id not in str(refused.value)
    assert str(refused.value) == golden


def test_none_is_refused_with_what_was_near(golden: Golden) -> None:
    with pytest.raises(NotFound) as refused:
        one(TASKS, "trian")
    assert str(refused.value) == golden
    with pytest.raises(NotFound) as refused:
        one([OLD], "train")
    assert str(refused.value) == golden


def test_the_container_is_the_one_named_last() -> None:
    statuses = [
        {"container_status": {"container_id": {"value": "a"}}, "timestamp": 3.5},
        {"state": "TASK_RUNNING", "timestamp": 4.25},
    ]
    found = TaskRef.of({"id": "t", "slave_id": "S", "framework_id": "F", "state": "TASK_RUNNING", "statuses": statuses})
    assert found.container_id == {"value": "a"}
    assert found.told_at == 4.25
    assert TaskRef.of({"id": "t", "state": "TASK_STAGING"}).container_id is None
