"""What a lease changes in an OCI configuration."""

from __future__ import annotations

from mesos_gpu.doors.common.names import HOOK
from mesos_gpu.doors.oci.edits import device_rules, edited, engine_folder
from mesos_gpu.isolator.plan import DeviceRule

NODE = {
    "path": "/dev/nvidia0",
    "host_path": "/dev/nvidia0",
    "major": 195,
    "minor": 0,
    "mode": 0o666,
    "uid": 0,
    "gid": 0,
}
USE = {
    "devices": [NODE],
    "mounts": [{"source": "/v", "destination": "/usr/local/nvidia", "read_only": True}],
    "environment": {"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
    "search_paths": {"PATH": ["/usr/local/nvidia/bin"], "LD_LIBRARY_PATH": ["/usr/local/nvidia/lib64"]},
}
LENDS = {"path": "/p", "args": ["p", "bind", "l"]}


def test_a_container_gets_nodes_rules_files_variables_and_the_hook() -> None:
    config = {
        "process": {"env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0", "A=b"]},
        "linux": {"devices": [{"path": "/dev/nvidia0", "major": 1}, {"path": "/dev/fuse"}]},
        "hooks": {"prestart": [{"path": f"/usr/bin/{HOOK}"}, {"path": "/other"}]},
    }
    new = edited(config, USE, LENDS)
    numbers = {"type": "c", "major": 195, "minor": 0}
    assert new["linux"]["devices"] == [
        {"path": "/dev/fuse"},
        {"path": "/dev/nvidia0", **numbers, "fileMode": 0o666, "uid": 0, "gid": 0},
    ]
    assert new["linux"]["resources"]["devices"] == [{"allow": True, **numbers, "access": "rwm"}]
    assert new["mounts"][0]["options"] == ["rbind", "nosuid", "nodev", "rprivate", "ro"]
    assert new["process"]["env"] == [
        *("PATH=/bin:/usr/local/nvidia/bin", "NVIDIA_VISIBLE_DEVICES=GPU-a", "A=b"),
        "LD_LIBRARY_PATH=/usr/local/nvidia/lib64",
    ]
    assert new["hooks"] == {"prestart": [{"path": "/other"}], "createRuntime": [LENDS]}
    assert config["hooks"]["prestart"][0]["path"].endswith(HOOK), "what was given is as it was"


def test_without_a_lease_there_is_no_hook_and_nothing_twice() -> None:
    once = edited({}, {**USE, "environment": {}}, None)
    assert once["hooks"] == {}
    assert "NVIDIA_VISIBLE_DEVICES=void" in once["process"]["env"]
    again = edited(once, USE, None)
    assert len(again["linux"]["devices"]) == 1
    assert "PATH=/usr/local/nvidia/bin" in again["process"]["env"]


def test_what_a_container_may_open_is_read_in_order() -> None:
    def config(*entries: dict[str, object]) -> dict[str, object]:
        return {"linux": {"resources": {"devices": list(entries)}}}

    some = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
    assert device_rules(config(some, {"allow": False, "access": "rwm"}, {**some, "minor": -1, "access": "r"})) == [
        DeviceRule("c", 1, None, "r")
    ]
    assert device_rules(config({"allow": True, "access": "rwm"})) is None
    assert device_rules({}) == []


def test_dockers_folder_of_a_container_is_known_by_what_it_mounts() -> None:
    def config(source: str, destination: str = "/etc/hostname") -> dict[str, object]:
        return {"mounts": [{"destination": "/proc"}, {"destination": destination, "source": source}]}

    assert engine_folder(config("/d/containers/abc/hostname"), "abc") == "/d/containers/abc"
    assert engine_folder(config("/d/containers/abc/hostname"), "other") is None
    assert engine_folder(config("/x/abc/hostname", "/data"), "abc") is None
    assert engine_folder({}, "abc") is None
