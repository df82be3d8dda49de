"""What an app needs of an agent."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.why.wish import wish_of


def volume(size: int, **changes: Any) -> dict[str, Any]:
    return {"containerPath": "d", "mode": "RW", "persistent": {"size": size, **changes}}


def test_volumes_that_outlive_tasks_are_part_of_the_disk_that_is_wanted() -> None:
    container = {"type": "MESOS", "volumes": [volume(100), volume(50, type="root"), volume(1000, type="mount")]}
    app = {"id": "/a", "cpus": 0.1, "disk": 10, "container": container}
    wish = wish_of(app)
    assert wish.amounts["disk"] == 160
    assert (wish.first_health, wish.over) == (0.5, 0), "no two instances have one volume"


def test_an_app_without_them_is_replaced_before_it_ends() -> None:
    wish = wish_of({"id": "/a", "disk": 10, "container": {"type": "MESOS", "volumes": [{"hostPath": "/h"}]}})
    assert (wish.amounts["disk"], wish.first_health, wish.over) == (10, 1, 1)


def test_of_a_pod_too() -> None:
    pod = {"id": "/p", "containers": [{"resources": {"cpus": 0.1, "disk": 5}}], "executorResources": {"disk": 10}}
    kept = wish_of({**pod, "volumes": [{"name": "d", "persistent": {"size": 100}}, {"name": "e"}]})
    assert (kept.amounts["disk"], kept.first_health, kept.over) == (115, 0.5, 0)
    assert (wish_of(pod).amounts["disk"], wish_of(pod).over) == (15, 1)
