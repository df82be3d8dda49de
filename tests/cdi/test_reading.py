"""CDI files of any vendor: what consumers refuse, and which file counts."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.cdi.reading import SpecFile, least_version, read_devices, spec_problems
from mesos_gpu.cdi.writing import gpu_spec
from tests.support.golden import Golden

EDITS = {"deviceNodes": [{"path": "/dev/thing"}]}


def spec(*names: str, **more: Any) -> dict[str, Any]:
    devices = [{"name": name, "containerEdits": EDITS} for name in names or ("one",)]
    return {"cdiVersion": "0.5.0", "kind": "vendor.com/thing", "devices": devices, **more}


def with_edits(**edits: Any) -> dict[str, Any]:
    return {**spec(), "devices": [{"name": "one", "containerEdits": edits}]}


@pytest.mark.parametrize(
    "document",
    [
        [],
        spec(cdiVersion="2.0"),
        spec(cdiVersion=""),
        spec(kind="thing"),
        spec(kind="1vendor/thing"),
        spec(devices=[]),
        spec("-one"),
        spec(devices=["one"]),
        spec("one", "one"),
        spec(colour="red"),
        with_edits(),
        with_edits(env=["A"]),
        with_edits(env=["A=1"], wish=1),
        with_edits(deviceNodes=[{"path": "dev/x"}]),
        with_edits(deviceNodes=[{"path": "/dev/x", "permissions": "rx"}]),
        with_edits(mounts=[{"hostPath": "/a"}]),
        with_edits(hooks=[{"hookName": "later", "path": "/p"}]),
        with_edits(hooks=[{"hookName": "createRuntime", "path": "p"}]),
        spec(containerEdits=[1]),
        spec("0", cdiVersion="0.3.0"),
        spec(annotations={}),
    ],
)
def test_what_consumers_refuse(document: Any, golden: Golden) -> None:
    assert list(spec_problems(document)) == golden


@pytest.mark.parametrize(
    ("document", "version"),
    [
        (spec(), "0.3.0"),
        (with_edits(mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]), "0.4.0"),
        (spec("0"), "0.5.0"),
        (with_edits(deviceNodes=[{"path": "/dev/x", "hostPath": "/dev/y"}]), "0.5.0"),
        (spec(kind="vendor.com/thing.sub"), "0.6.0"),
        (with_edits(additionalGids=[1]), "0.7.0"),
        (with_edits(intelRdt={"closID": "a"}), "0.7.0"),
        (with_edits(netDevices=[{}]), "1.1.0"),
    ],
)
def test_the_lowest_version_that_has_it_all(document: Any, version: str) -> None:
    assert least_version(document) == version


def test_a_later_folder_wins_and_equals_are_a_conflict(golden: Golden) -> None:
    low, high = SpecFile("/etc/cdi/a.json", 0, spec("one", "two")), SpecFile("/run/cdi/a.json", 1, spec("one"))
    found = read_devices([low, high])
    assert {name: device.path for name, device in found.devices.items()} == {
        "vendor.com/thing=one": "/run/cdi/a.json",
        "vendor.com/thing=two": "/etc/cdi/a.json",
    }
    assert found.problems == []
    twice = read_devices([low, SpecFile("/etc/cdi/b.json", 0, spec("two"))])
    assert "vendor.com/thing=two" not in twice.devices
    assert twice.problems == golden
    wrong = read_devices([SpecFile("/etc/cdi/c.json", 0, "no yaml")])
    assert wrong.problems == golden


def test_permissions_may_be_none_at_all() -> None:
    assert list(spec_problems(with_edits(deviceNodes=[{"path": "/dev/x", "permissions": "none"}]))) == []


HOOK = ["/usr/bin/python3", "hook", "lease"]


def node(path: str, minor: int) -> dict[str, Any]:
    return {"path": path, "host_path": path, "major": 195, "minor": minor, "mode": 0o666, "uid": 0, "gid": 0}


def gpu(minor: int, uuid: str, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "index": minor, "mig": None, "devices": [node(f"/dev/nvidia{minor}", minor)], **more}


DRIVER = {
    "version": "550.1",
    "control_devices": [node("/dev/nvidiactl", 255)],
    "mounts": [{"source": "/v", "destination": "/usr/local/nvidia", "read_only": True}],
    "files": {"bin": ["nvidia-smi"], "lib64": ["libcuda.so.1"]},
    "gpus": [gpu(0, "GPU-a"), gpu(1, "MIG-b", mig={"parent_uuid": "p"}), gpu(1, "MIG-c", mig={"parent_uuid": "p"})],
}


def test_gpus_are_named_by_index_uuid_and_all_and_instances_by_gpu_and_number() -> None:
    spec = gpu_spec(DRIVER, HOOK)
    names = [device["name"] for device in spec["devices"]]
    assert names == ["0", "GPU-a", "1:0", "MIG-b", "1:1", "MIG-c", "all"]
    by_name = {device["name"]: device["containerEdits"] for device in spec["devices"]}
    assert [one["path"] for one in by_name["0"]["deviceNodes"]] == ["/dev/nvidia0"]
    assert [one["path"] for one in by_name["all"]["deviceNodes"]] == ["/dev/nvidia0", "/dev/nvidia1"]
    (hook,) = by_name["all"]["hooks"]
    assert hook["path"] == HOOK[0]
    assert hook["args"] == [*HOOK, "--gpu", "GPU-a", "--gpu", "MIG-b", "--gpu", "MIG-c"]


def test_it_has_what_podman_4_takes_and_no_more() -> None:
    spec = gpu_spec(DRIVER, HOOK)
    assert (spec["cdiVersion"], least_version(spec)) == ("0.5.0", "0.5.0")
    assert "annotations" not in spec
    assert list(spec_problems(spec)) == []
    common = spec["containerEdits"]
    assert common["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert [mount["containerPath"] for mount in common["mounts"]] == [
        *("/usr/local/nvidia", "/usr/bin/nvidia-smi", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
    ]


def test_annotations_need_a_later_version() -> None:
    spec = gpu_spec(DRIVER, HOOK, annotate=True, kind="example.com/gpu")
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "example.com/gpu")
    assert spec["annotations"] == {"mesos-gpu.driver-version": "550.1"}
    assert list(spec_problems(spec)) == []


def test_no_gpus_and_no_files_are_no_names_and_no_mounts() -> None:
    spec = gpu_spec({**DRIVER, "gpus": [], "mounts": []}, HOOK)
    assert spec["devices"] == []
    assert "mounts" not in spec["containerEdits"]
