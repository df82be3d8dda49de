"""A CDI file of GPUs: names, versions, nodes, and the hook that takes the lease."""

from __future__ import annotations

from typing import Any

from mesos_gpu.cdi.reading import least_version, spec_problems
from mesos_gpu.cdi.writing import gpu_spec

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
