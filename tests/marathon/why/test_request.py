"""What an app or a pod requests, read from what a Marathon shows."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour, Rules
from mesos_gpu.marathon.why.request import request_of, rules_shown, spec_of


def volume(size: int, **changes: Any) -> dict[str, Any]:
    return {"containerPath": "d", "mode": "RW", "persistent": {"size": size, **changes}}


def strategy(document: dict[str, Any]) -> tuple[float, float]:
    found = spec_of(document).document["upgradeStrategy"]
    return found["minimumHealthCapacity"], found["maximumOverCapacity"]


def test_persistent_volumes_are_requested_beside_the_disk_of_the_task() -> None:
    container = {"type": "MESOS", "volumes": [volume(100), volume(50, type="root"), volume(1000, type="mount")]}
    app = {"id": "/a", "cpus": 0.1, "disk": 10, "container": container}
    spec = spec_of(app)
    assert spec.asked["disk"] == 10_000
    assert [one["persistent"]["size"] for one in spec.persistent_volumes] == [100, 50, 1000]
    assert strategy(app) == (0.5, 0), "no two instances have one volume"


def test_an_app_without_them_is_replaced_before_it_ends() -> None:
    app = {"id": "/a", "disk": 10, "container": {"type": "MESOS", "volumes": [{"hostPath": "/h"}]}}
    assert spec_of(app).persistent_volumes == ()
    assert strategy(app) == (1, 1)


def test_a_pod_requests_the_sum_of_its_containers_and_its_executor() -> None:
    http = {"name": "http", "hostPort": 80}
    request = request_of(
        {
            "id": "/pod",
            "containers": [
                {"name": "a", "resources": {"cpus": 1, "gpus": 1, "mem": 32}, "endpoints": [http]},
                {"name": "b", "resources": {"cpus": 0.5, "gpus": 2, "mem": 32}},
            ],
            "executorResources": {"cpus": 0.1, "mem": 32},
            "volumes": [{"name": "d", "persistent": {"size": 100}}],
            "scaling": {"kind": "fixed", "instances": 3},
            "scheduling": {"placement": {"constraints": [{"fieldName": "rack", "operator": "UNIQUE"}]}},
        }
    )
    spec = request.spec
    assert (spec.gpus, spec.asked["cpus"], spec.asked["mem"], spec.instances) == (3, 1600, 96_000, 3)
    assert (request.constraints, [port.number for port in spec.ports]) == ((("rack", "UNIQUE"),), [80])
    assert (spec.is_pod, spec.resident, request.id) == (True, True, "/pod")


def test_the_flags_of_this_projects_marathon_decide_else_its_reasons() -> None:
    features = ["gangs", "gpu_scheduling_behavior=restricted", "accepted_resource_roles_default_behavior=unreserved"]
    assert rules_shown({"features": features}, {}) == Rules(GpuBehaviour.RESTRICTED, RolesBehaviour.UNRESERVED)
    assert rules_shown({"features": None}, {}) == Rules()
    unused = {"lastUnusedOffers": [{"reason": ["DeclinedScarceResources"]}]}
    assert rules_shown({}, unused) == Rules(GpuBehaviour.RESTRICTED)
    assert rules_shown({"features": ["gpu_scheduling_behavior=unrestricted"]}, unused) == Rules()


def test_what_marathon_adds_to_an_app_that_it_shows_is_ignored() -> None:
    shown = {"id": "/a", "cpus": 1, "tasks": [{"id": "t"}], "tasksRunning": 1, "ports": [0], "version": "1"}
    assert len(spec_of(shown).ports) == 1
    assert not {"tasks", "tasksRunning", "version"} & set(spec_of(shown).document)
