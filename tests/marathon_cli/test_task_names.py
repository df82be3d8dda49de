"""What a task's name on the command line means."""

from __future__ import annotations

import pytest

from marathon_cli.task_names import TaskRef, matching, one
from mesos_gpu.errors import BadInput, NotFound


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


def test_one_of_several_is_refused_with_the_candidates() -> None:
    many = [task(f"web.instance-{n:02}._app.1") for n in range(12)]
    with pytest.raises(BadInput, match="may mean 12 tasks") as refused:
        one(many, "web")
    assert many[9].id in str(refused.value)
    assert many[10].id not in str(refused.value)
    assert "and 2 more" in str(refused.value)


def test_none_is_refused_with_what_was_near() -> None:
    with pytest.raises(NotFound, match=r"there is no task trian; did you mean train\?"):
        one(TASKS, "trian")
    with pytest.raises(NotFound, match=r"no task train runs; train\.instance-0\._app\.1 has ended: TASK_FAILED"):
        one([OLD], "train")


def test_the_container_is_the_one_named_last() -> None:
    statuses = [{"container_status": {"container_id": {"value": "a"}}}, {"state": "TASK_RUNNING"}]
    found = TaskRef.of({"id": "t", "slave_id": "S", "framework_id": "F", "state": "TASK_RUNNING", "statuses": statuses})
    assert found.container_id == {"value": "a"}
    assert TaskRef.of({"id": "t", "state": "TASK_STAGING"}).container_id is None
