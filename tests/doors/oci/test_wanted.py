"""What a container's environment asks for, requirement by requirement and word by word."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.doors.common.names import HOOK
from mesos_gpu.doors.oci.edits import device_rules, edited, engine_folder
from mesos_gpu.doors.oci.requirements import check_requirements
from mesos_gpu.doors.oci.runtime import bundle_of
from mesos_gpu.doors.oci.wanted import SUPPORTED, Wanted, environment_of, resolved, wanted
from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.isolator.plan import DeviceRule
from tests.support.golden import Golden

V = "NVIDIA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        ({V: ""}, None),
        ({V: "void"}, None),
        ({V: "all,void"}, None),
        ({V: " , "}, None),
        ({V: "none"}, Wanted()),
        ({V: "none,all"}, Wanted()),
        ({V: "all,none"}, Wanted(everything=True)),
        ({V: "0,all"}, Wanted(everything=True)),
        ({V: " 0 ,GPU-a,,0"}, Wanted(names=("0", "GPU-a"))),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=9"}, None),
        ({"CUDA_VERSION": "9.0.176"}, Wanted(None, (), True, frozenset(SUPPORTED), (("CUDA_VERSION", "cuda>=9.0"),))),
        (
            {V: "1", "CUDA_VERSION": "9.0", "NVIDIA_REQUIRE_CUDA": "cuda>=9.0"},
            Wanted(names=("1",), requirements=(("NVIDIA_REQUIRE_CUDA", "cuda>=9.0"),)),
        ),
        ({V: "1", "NVIDIA_DISABLE_REQUIRE": "true", "NVIDIA_REQUIRE_X": "cuda>=99"}, Wanted(names=("1",))),
        ({V: "1", "NVIDIA_REQUIRE_JETPACK": "x", "NVIDIA_REQUIRE_JETPACK_HOST": "y"}, Wanted(names=("1",))),
        ({V: "1", "NVIDIA_DRIVER_CAPABILITIES": "all"}, Wanted(names=("1",), capabilities=frozenset(SUPPORTED))),
        ({V: "1", "NVIDIA_DRIVER_CAPABILITIES": "video, ,"}, Wanted(names=("1",), capabilities=frozenset({"video"}))),
        ({V: "1", "NVIDIA_DRIVER_CAPABILITIES": ""}, Wanted(names=("1",))),
    ],
)
def test_the_variables_ask_for_gpus(env: dict[str, str], found: Wanted | None) -> None:
    assert wanted(env) == found
    assert found is None or found.any == bool(found.everything or found.names)


def test_dockers_own_request_tells_a_number_from_indices() -> None:
    def request(**keys: Any) -> list[dict[str, Any]]:
        return [{"Driver": "other", "Count": 9}, {"Driver": "", "Capabilities": [["gpu"]], **keys}]

    assert wanted({V: "0,1"}, request(Count=2)) == Wanted(count=2)
    assert wanted({V: "0,1"}, request(DeviceIDs=["0", "1", "0"])) == Wanted(names=("0", "1"))
    assert wanted({V: "all"}, request(Count=-1)) == Wanted(everything=True)
    assert wanted({V: "0"}, request(Count=1, Capabilities=[["tpu"]])) == Wanted(names=("0",))
    assert wanted({V: "none"}, request(Count=1)) == Wanted()


def test_capabilities_that_there_are_not_are_refused(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        wanted({V: "0", "NVIDIA_DRIVER_CAPABILITIES": "utility,magic"})
    assert str(refused.value) == golden


def test_of_a_variable_that_is_there_twice_the_last_counts() -> None:
    assert environment_of({"process": {"env": ["A=1", "A=2=3", "B"]}}) == {"A": "2=3", "B": ""}
    assert environment_of({}) == {}


def test_mig_instances_are_named_by_gpu_and_number(golden: Golden) -> None:
    gpus = [{"uuid": "GPU-0", "index": 0, "mig": None}, *({"uuid": f"MIG-{n}", "index": 1, "mig": {}} for n in "ab")]
    gpus = [{**gpu, "mig": {"parent_uuid": "p"}} if gpu["index"] == 1 else gpu for gpu in gpus]
    assert resolved(["0", "1:1", "MIG-x"], gpus) == ["0", "MIG-b", "MIG-x"]
    with pytest.raises(BadInput) as refused:
        resolved(["0:0"], gpus)
    assert str(refused.value) == golden


DRIVER = {"version": "550.54.15", "cuda_version": "12.4"}
GPUS = [{"uuid": "a", "arch": "7.0", "brand": "Tesla"}, {"uuid": "b", "arch": "8.6", "brand": "GeForce"}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cuda>=12.4",
        "CUDA>=11",
        "cuda=12.4.0",
        "cuda!=12.3",
        "cuda<13 driver<1",
        "cuda>=99 driver>=550,driver<551",
        "driver>550.54",
        "arch>=7.0",
        "brand=tesla brand=GEFORCE",
        "brand!=quadro,arch<=8.6",
        "driver<=550.54.15.0",
    ],
)
def test_what_is_required_and_here(text: str) -> None:
    check_requirements([("NVIDIA_REQUIRE_X", text)], DRIVER, GPUS)


@pytest.mark.parametrize(
    "text",
    [
        "cuda>=12.5",
        "driver<550",
        "brand=tesla",
        "arch>=7.5",
        "cuda>=99 driver>600",
        "cuda>=12,driver>600",
    ],
)
def test_what_is_required_and_not_here_says_what_is(text: str, golden: Golden) -> None:
    with pytest.raises(Conflict) as refused:
        check_requirements([("X", text)], DRIVER, GPUS)
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    "text", ["colour=red", "cuda", "cuda>=", "cuda=>1", "cuda>=new", "brand>tesla", "cuda>=1,", ","]
)
def test_what_is_no_expression_is_refused_as_by_the_c_library(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        check_requirements([("X", text)], DRIVER, ())
    assert str(refused.value) == golden


def test_without_a_gpu_what_is_required_of_gpus_holds_and_what_is_not_known_does_not(golden: Golden) -> None:
    check_requirements([("X", "brand=tesla,arch>9")], DRIVER, ())
    with pytest.raises(Conflict) as refused:
        check_requirements([("X", "arch>1")], DRIVER, [{"uuid": "a"}])
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        check_requirements([("X", "cuda>1")], {}, ())
    assert str(refused.value) == golden


def test_the_runtimes_command_line() -> None:
    assert bundle_of(["--root", "/r", "--log=/l", "create", "--bundle", "/b", "--pid-file", "/p", "id"]) == ("id", "/b")
    assert bundle_of(["create", "-b", "/b", "id"]) == ("id", "/b")
    assert bundle_of(["run", "--bundle=/b", "--no-pivot", "id"]) == ("id", "/b")
    assert bundle_of(["run", "id"]) == ("id", ".")
    assert bundle_of(["start", "id"]) is None
    assert bundle_of(["--version"]) is None


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
