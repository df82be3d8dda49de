"""Requests of Docker, podman and people, and what they are answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.doors.nvidia_docker.rest import rest_answer
from mesos_gpu.doors.nvidia_docker.volumes import ACCEPTED, Answer, answer

V1, V2 = ACCEPTED
NAME = "nvidia_driver_390.48"
PLACE = "/var/lib/nvidia-docker/volumes/nvidia_driver"


def ask(path: str, accept: str | None = V2, body: str = "", method: str = "POST", **more: Any) -> Answer:
    facts = {"version": "390.48", "folder": PLACE, "there": {"390.48"}, **more}
    return answer(method, path, accept, body, **facts)


def about(call: str, name: str = NAME, accept: str | None = V2, **more: Any) -> Answer:
    return ask(f"/VolumeDriver.{call}", accept, json.dumps({"Name": name, "ID": "abc", "Opts": {}}), **more)


def test_docker_is_answered_as_by_the_original() -> None:
    mounted = f"{PLACE}/390.48"
    assert ask("/Plugin.Activate") == Answer(200, '{"Implements":["VolumeDriver"]}\n', V2)
    assert ask("/Plugin.Activate", V1).kind == V1
    assert ask("/VolumeDriver.Capabilities", body="{}\n").body == '{"Capabilities":{"Scope":"local"}}\n'
    assert about("Create").body == '{"Err":null}\n'
    assert about("Mount").body == f'{{"Mountpoint":"{mounted}","Err":null}}\n'
    assert about("Path").body == about("Mount").body
    assert about("Get").body == f'{{"Volume":{{"Name":"{NAME}","Mountpoint":"{mounted}"}},"Err":null}}\n'
    listed = f'{{"Volumes":[{{"Name":"{NAME}","Mountpoint":"{mounted}"}}],"Err":null}}\n'
    assert ask("/VolumeDriver.List").body == listed
    assert ask("/VolumeDriver.List", there=()).body == '{"Volumes":null,"Err":null}\n'
    assert about("Unmount") == Answer(200, '{"Err":null}\n', V2, unmounted="abc")


def test_failures_are_200_for_docker_and_500_for_podman() -> None:
    said = '{"Mountpoint":null,"Err":"no such volume: nvidia_driver_1.0"}\n'
    docker, podman = about("Mount", "nvidia_driver_1.0"), about("Mount", "nvidia_driver_1.0", None)
    assert (docker.status, docker.body) == (200, said)
    assert (podman.status, podman.body, podman.kind) == (500, said, V1)
    assert about("Get", "nvidia_driver_1.0").body == '{"Volume":null,"Err":"no such volume: nvidia_driver_1.0"}\n'
    assert about("Get", accept=None).status == 200


@pytest.mark.parametrize(
    ("call", "name", "problem"),
    [
        ("Create", "nvidia_driver_391.1", "invalid volume version: nvidia_driver_391.1"),
        ("Create", "nvidia_driver", "bad volume format: nvidia_driver"),
        ("Create", "other_390.48", "unsupported volume: other_390.48"),
        ("Remove", "nvidia_driver_1", "no such volume: nvidia_driver_1"),
        ("Path", "../etc_1/..", "bad volume format: ../etc_1/.."),
        ("Mount", "", "bad volume format: "),
    ],
)
def test_a_volume_that_there_is_not(call: str, name: str, problem: str) -> None:
    said = about(call, name)
    assert json.loads(said.body)["Err"] == problem
    assert (said.create, said.remove, said.mounted) == ("", "", "")


def test_what_is_to_be_done_goes_with_the_answer() -> None:
    assert about("Create").create == "390.48"
    assert about("Remove").remove == "390.48"
    assert about("Mount").mounted == "abc"
    assert about("Path").mounted == ""
    assert json.loads(about("Remove", in_use=True).body) == {"Err": f"volume is in use: {NAME}"}
    # One of an older driver, which nobody can mount any more, goes at any time.
    assert about("Remove", "nvidia_driver_1.0", there={"1.0"}, in_use=True).remove == "1.0"


def test_what_is_no_request() -> None:
    assert ask("/nothing", "application/json").status == 406, "before it is looked at what is asked for"
    assert ask("/nothing").status == 404
    assert ask("/Plugin.Activate", method="GET") == Answer(404, "404 page not found\n")
    for body in ("{", "[]", "[" * 100_000, '{"Name": 1}', '{"Name": "\\ud800"}'):
        assert ask("/VolumeDriver.Get", body=body).status == 400


def node(path: str, host: str = "") -> dict[str, Any]:
    return {"path": path, "host_path": host or path}


DRIVER: dict[str, Any] = {
    "version": "390.48",
    "cuda_version": "9.1",
    "control_devices": [node("/dev/nvidiactl"), node("/dev/nvidia-uvm"), node("/dev/nvidia-uvm-tools")],
    "gpus": [
        {
            **{"uuid": f"GPU-{n}abc", "index": n, "name": "Some", "bus_id": f"0000:0{n}:00.0"},
            "devices": [node(f"/dev/nvidia{n}")],
        }
        for n in range(2)
    ],
}
CONTROL = "--device=/dev/nvidiactl --device=/dev/nvidia-uvm --device=/dev/nvidia-uvm-tools"
VOLUME = "--volume-driver=nvidia-docker --volume=nvidia_driver_390.48:/usr/local/nvidia:ro"


def rest(target: str, method: str = "GET", **more: Any) -> Answer:
    return rest_answer(method, target, {**DRIVER, **more}, [{}, {}])


def test_dockers_arguments_are_one_line_without_an_end() -> None:
    both = f"{VOLUME} {CONTROL} --device=/dev/nvidia0 --device=/dev/nvidia1"
    for query in ("", "?dev=0+1&vol=nvidia_driver", "?dev=*", "?dev=GPU-0+1+0", "?dev=0%201&vol="):
        assert rest(f"/docker/cli{query}") == Answer(200, both)
        assert rest(f"/v1.0/docker/cli{query}") == Answer(200, both)
    assert rest("/docker/cli?dev=1").body == f"{VOLUME} {CONTROL} --device=/dev/nvidia1"
    said = json.loads(rest("/docker/cli/json?dev=0").body)
    assert list(said) == ["VolumeDriver", "Volumes", "Devices"]
    assert said["Devices"][-1] == "/dev/nvidia0"
    elsewhere = rest("/docker/cli", control_devices=[node("/dev/nvidiactl", "/run/ctl")], gpus=[]).body
    assert elsewhere == f"{VOLUME} --device=/run/ctl:/dev/nvidiactl"


def test_what_is_not_there_is_refused() -> None:
    assert rest("/docker/cli?dev=7") == Answer(400, "invalid device: 7\n")
    assert rest("/docker/cli/json?vol=other") == Answer(400, "invalid volume: other\n")
    assert rest("/gpu").status == rest("/gpu/info", "POST").status == 404


def test_every_path_answers_in_both_its_forms() -> None:
    for path in ("/gpu/info", "/gpu/status"):
        text, form = rest(path), rest(f"{path}/json")
        assert text.kind.startswith("text/plain")
        assert form.kind == "application/json"
        assert len(json.loads(form.body)["Devices"]) == text.body.count("Device #") == 2
    assert rest("/mesos/cli").body.endswith(" --resources=gpus:{GPU-0abc,GPU-1abc}")
    assert rest("/mesos/cli?format=scalar").body.endswith(" --resources=gpus:2")
