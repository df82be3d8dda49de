"""Volumes and secrets of an app: what is refused, and what travels to the agent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app import read_app
from mesos_gpu.marathon.definitions.runspec import versioned
from mesos_gpu.marathon.matching.disks import take_volumes
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.marathon.builders import RULES, SETTINGS, T0, V0, Run, app, offer

ALL = dataclasses.replace(RULES, features=frozenset({"external_volumes", "secrets", "gpu_resources"}))
DVDI = {
    "name": "v",
    "provider": "dvdi",
    "size": 5,
    "options": {"dvdi/driver": "rexray", "dvdi/iops": " 7 ", "x/y": "z"},
}


def external(**changes: Any) -> dict[str, Any]:
    volume = {"containerPath": "data", "mode": "RW", "external": {**DVDI, **changes}}
    return app(container={"type": "MESOS", "volumes": [volume]})


def problems(document: dict[str, Any], rules: Any = ALL) -> dict[str, str]:
    with pytest.raises(InvalidApp) as caught:
        read_app(document, rules)
    return {problem.path: problem.message for problem in caught.value.problems}


def launched(document: dict[str, Any]) -> dict[str, Any]:
    spec = versioned(read_app(document, ALL), V0, None)
    what = Offer.from_json(offer())
    found = match(spec, what, what.resources, (), behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert isinstance(found, Match)
    return task_info(spec, "t", what, found)


def test_external_volumes_need_the_feature(golden: Golden) -> None:
    found = problems(external(), RULES)
    assert found["/container/volumes(0)"] == golden


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"provider": "nfs"}, "/container/volumes(0)/external/provider"),
        ({"provider": "csi"}, "/container/volumes(0)/external/provider"),
        ({"provider": None}, "/container/volumes(0)/external/provider"),
        ({"name": ""}, "/container/volumes(0)/external/name"),
        ({"options": {}}, '/container/volumes(0)/external/options("dvdi/driver")'),
        ({"options": {"dvdi/driver": "Bad Name"}}, '/container/volumes(0)/external/options("dvdi/driver")'),
        ({"options": {"dvdi/driver": "rexray", "noslash": "1"}}, "/container/volumes(0)/external/options"),
    ],
)
def test_external_volumes_that_no_provider_knows_are_refused(changes: dict[str, Any], path: str) -> None:
    assert path in problems(external(**changes))


def test_an_external_volume_is_for_one_instance_that_ends_before_the_next_begins() -> None:
    assert "/instances" in problems({**external(), "instances": 2})
    strategy = {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}
    assert "/upgradeStrategy/maximumOverCapacity" in problems({**external(), "upgradeStrategy": strategy})
    assert read_app(external(), ALL)["upgradeStrategy"] == {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}


def test_one_external_volume_is_for_one_app_unless_it_is_shared(golden: Golden) -> None:
    run = Run(settings=replace(SETTINGS, rules=ALL))
    run.subscribe()
    run.put({**external(), "id": "/a"})
    with pytest.raises(InvalidApp) as refused:
        run.put({**external(), "id": "/b"})
    assert str(refused.value) == golden
    run.put({**external(name="w"), "id": "/b"})
    run.put({**external(shared=True), "id": "/c"})
    assert {spec.id for spec in run.state.apps()} == {"/a", "/b", "/c"}


def test_an_external_volume_travels_as_mesos_says_it() -> None:
    (volume,) = launched(external())["container"]["volumes"]
    assert volume == {
        "container_path": "data",
        "mode": "RW",
        "source": {
            "type": "DOCKER_VOLUME",
            "docker_volume": {
                "driver": "rexray",
                "name": "v",
                "driver_options": {"parameter": [{"key": "iops", "value": "7"}, {"key": "size", "value": "5"}]},
            },
        },
    }


def test_secrets_need_the_feature_and_a_definition(golden: Golden) -> None:
    document = app(env={"PASSWORD": {"secret": "password"}}, secrets={"password": {"source": "/db/password"}})
    assert problems(document, RULES)["/"] == golden
    assert "/env/PASSWORD" in problems({**document, "secrets": {}})
    missing = app(container={"type": "MESOS", "volumes": [{"containerPath": "key", "secret": "password"}]})
    assert "/container/volumes(0)" in problems(missing)


def test_secrets_are_left_to_a_plugin_and_there_is_none() -> None:
    volumes = [
        {"containerPath": "key", "secret": "password"},
        {"containerPath": "/h", "hostPath": "/h", "mode": "RO"},
    ]
    info = launched(
        app(
            env={"PASSWORD": {"secret": "password"}, "USER": "u"},
            secrets={"password": {"source": "/db/password"}},
            container={"type": "MESOS", "volumes": volumes},
        )
    )
    variables = {v["name"]: v.get("value") for v in info["command"]["environment"]["variables"]}
    assert variables["USER"] == "u"
    assert "PASSWORD" not in variables
    assert [volume["container_path"] for volume in info["container"]["volumes"]] == ["/h"]


@pytest.mark.parametrize(
    ("container", "default"),
    [
        ({"type": "MESOS", "volumes": [{"containerPath": "d", "mode": "RW", "persistent": {"size": 1}}]}, True),
        ({}, False),
    ],
)
def test_residency_has_no_effect_and_shows_its_defaults_beside_volumes(
    container: dict[str, Any], default: bool
) -> None:
    document = app(residency={"taskLostBehavior": "RELAUNCH_AFTER_TIMEOUT", "relaunchEscalationTimeoutSeconds": 5})
    made = read_app({**document, **({"container": container} if container else {})}, RULES)
    shown = {"relaunchEscalationTimeoutSeconds": 3600, "taskLostBehavior": "WAIT_FOREVER"}
    assert made.get("residency") == (shown if default else None)


def disk(size: float, kind: str | None = None, root: str = "/", profile: str | None = None) -> dict[str, Any]:
    resource: dict[str, Any] = {"name": "disk", "type": "SCALAR", "scalar": {"value": size}, "role": "*"}
    if kind is not None:
        source = {"type": kind, kind.lower(): {"root": root}}
        resource["disk"] = {"source": {**source, "profile": profile} if profile else source}
    return resource


def wish(size: int, kind: str = "root", **changes: Any) -> dict[str, Any]:
    return {"containerPath": "d", "persistent": {"size": size, "type": kind, "constraints": [], **changes}}


def taken(wishes: list[dict[str, Any]], *disks: dict[str, Any]) -> list[tuple[int, str | None]] | None:
    found = take_volumes(wishes, Resources.from_json(disks))
    if found is None:
        return None
    roots = [
        next(iter(d.disk.get("source", {}).get(k, {}).get("root") for k in ("path", "mount") if d.disk), None)
        for d in found
    ]
    return [(int(d.amount) // 1000, root) for d, root in zip(found, roots, strict=True)]  # type: ignore[call-overload]


PATHS = (disk(100), disk(50, "PATH", "/p1"), disk(80, "PATH", "/p2"))
MOUNTS = (disk(100), disk(30, "MOUNT", "/m1"), disk(90, "MOUNT", "/m2"))


def test_root_volumes_share_the_agents_own_disk() -> None:
    assert taken([wish(40), wish(60)], *PATHS) == [(40, None), (60, None)]
    assert taken([wish(40), wish(61)], *PATHS) is None


def test_path_volumes_are_parts_of_the_emptiest_disk() -> None:
    assert [size for size, _ in taken([wish(40, "path"), wish(45, "path")], *PATHS) or ()] == [40, 45]
    assert taken([wish(81, "path")], *PATHS) is None


def test_mount_volumes_are_whole_disks_the_smallest_that_will_do() -> None:
    assert [size for size, _ in taken([wish(20, "mount")], *MOUNTS) or ()] == [30]
    assert [size for size, _ in taken([wish(20, "mount"), wish(20, "mount")], *MOUNTS) or ()] == [30, 90]
    assert taken([wish(40, "mount", maxSize=80)], *MOUNTS) is None
    assert taken([wish(20, "mount"), wish(20, "mount"), wish(1, "mount")], *MOUNTS) is None


def test_constraints_and_profiles_choose_among_disks() -> None:
    like = {"constraints": [["path", "LIKE", "/m2"]]}
    assert [size for size, _ in taken([wish(20, "mount", **like)], *MOUNTS) or ()] == [90]
    unlike = {"constraints": [["path", "UNLIKE", "/m.*"]]}
    assert taken([wish(20, "mount", **unlike)], *MOUNTS) is None
    fast = disk(200, "MOUNT", "/m3", "fast")
    assert [size for size, _ in taken([wish(20, "mount", profileName="fast")], *MOUNTS, fast) or ()] == [200]
    assert taken([wish(20, "mount", profileName="slow")], *MOUNTS, fast) is None


@pytest.mark.parametrize(
    "constraint",
    [["path", "LIKE"], ["path", "UNLIKE", "("], ["path", "LIKE", "(?=/m)/m2"], ["size", "LIKE", "1"]],
    ids=" ".join,
)
def test_expressions_that_choose_disks_are_looked_at(constraint: list[str], golden: Golden) -> None:
    persistent = {"size": 1, "type": "mount", "constraints": [constraint]}
    found = problems(app(container={"type": "MESOS", "volumes": [{"containerPath": "d", "persistent": persistent}]}))
    ((path, message),) = found.items()
    assert "constraints" in path
    assert message == golden


@pytest.mark.timeout(10)
def test_no_expression_keeps_the_choice_of_disks_busy() -> None:
    mount = disk(200, "MOUNT", "/" + "m" * 200)
    assert taken([wish(20, "mount", constraints=[["path", "LIKE", "(.|.|.)*x"]])], mount) is None
    assert taken([wish(20, "mount", constraints=[["path", "UNLIKE", "(.|.|.)*x"]])], mount) is not None
    # One that was kept before its expression was asked for matches nothing.
    assert taken([wish(20, "mount", constraints=[["path", "LIKE"]])], mount) is None


def test_disk_of_an_app_is_no_disk_of_another_kind() -> None:
    spec = versioned(read_app(app(disk=60), RULES), V0, None)
    what = Offer.from_json(offer(disk=50, extra=[disk(100, "MOUNT", "/m")]))
    found = match(spec, what, what.resources, (), behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert [reason.value for reason in getattr(found, "reasons", ())] == ["InsufficientDisk"]
