"""Requests of Docker, podman and people, and what they are answered."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from mesos_gpu.doors.nvidia_docker.arguments import cuda_problem, gpu_names, read_call
from mesos_gpu.doors.nvidia_docker.hosts import Remote, remote_host
from mesos_gpu.doors.nvidia_docker.rest import rest_answer
from mesos_gpu.doors.nvidia_docker.volumes import ACCEPTED, Answer, answer
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

V1, V2 = ACCEPTED
NAME = "nvidia_driver_390.48"
PLACE = "/var/lib/nvidia-docker/volumes/nvidia_driver"


def ask(path: str, accept: str | None = V2, body: str = "", method: str = "POST", **more: Any) -> Answer:
    facts = {"version": "390.48", "folder": PLACE, "there": {"390.48"}, **more}
    return answer(method, path, accept, body.encode(), **facts)


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


@pytest.mark.parametrize(
    ("line", "command", "image"),
    [
        ("run img cmd -x", "run", "img"),
        ("--tls -H tcp://h run --rm -it -e A=b --name n img", "run", "img"),
        ("--host=h container run -d img run", "run", "img"),
        ("create -p 80:80 img", "create", "img"),
        ("create -d run img", "create", "img"),
        ("run -p8080:80 img", "run", "img"),
        ("run -itv /a:/b img", "run", "img"),
        ("run -itv/a:/b img", "run", "img"),
        ("run -e=A=b img", "run", "img"),
        ("run --init img", "run", "img"),
        ("run --no-healthcheck --read-only img", "run", "img"),
        ("run -- img", "run", "img"),
        ("run - img", "run", "-"),
        ("run --rm", "run", None),
        ("ps -a", "ps", None),
        ("--version", "", None),
        ("version", "version", None),
    ],
)
def test_the_image_is_found_among_options_and_their_values(line: str, command: str, image: str | None) -> None:
    call = read_call(shlex.split(line), "28.2.2")
    assert (call.command, None if call.image is None else call.words[call.image]) == (command, image)
    if image is not None:
        with_more = call.with_arguments(["--device=x"])
        assert with_more[with_more.index("--device=x") + 1] == image
    else:
        assert call.with_arguments(["--device=x"]) == shlex.split(line)


def test_flags_are_those_of_the_clients_version(golden: Golden) -> None:
    assert read_call(["run", "--init", "a", "img"], "1.12.6").image == 3
    assert read_call(["run", "--no-healthcheck", "a", "img"], "1.11.0").image == 3
    assert read_call(["run", "--no-healthcheck", "img"], "1.12.0").image == 2
    with pytest.raises(BadInput) as refused:
        read_call(["run"], "latest")
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        read_call(["container"], "17.03.1-ce")
    assert str(refused.value) == golden


def test_gpus_are_named_with_blanks_or_commas() -> None:
    assert gpu_names(" 0, 1  GPU-a,0") == ["0", "1", "GPU-a"]
    assert gpu_names("") == []


def test_an_image_for_a_newer_cuda_is_refused(golden: Golden) -> None:
    assert cuda_problem("8.0", {"cuda_version": "9.1"}) is None
    assert cuda_problem("", {"cuda_version": None}) is None
    assert cuda_problem("10.0", {"cuda_version": "9.1"}) == golden
    assert cuda_problem("8.0", {}) == golden


@pytest.mark.parametrize(
    ("nv", "docker", "found"),
    [
        ("", "", None),
        ("", "unix:///s", None),
        ("unix:///s", "tcp://h:2375", None),
        ("", "tcp://h:2375", Remote("h", 3476)),
        ("http://h:80", "", Remote("h", 80)),
        ("h:", "", Remote("h", 3476)),
        (":3000", "", Remote("localhost", 3000)),
        ("tcp://[::1]:99/", "", Remote("[::1]", 99)),
        ("ssh://me@h:2222:99", "", Remote("h", 99, "me", 2222)),
        ("ssh://h:", "", Remote("h", 3476, "user", 22)),
        ("ssh://h:99", "", Remote("h", 99, "user", 22)),
    ],
)
def test_whom_to_ask(nv: str, docker: str, found: Remote | None) -> None:
    assert remote_host(nv, docker, "user") == found


@pytest.mark.parametrize("text", ["h", "ftp://h:1"])
def test_what_is_no_host(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        remote_host(text, "", "user")
    assert str(refused.value) == golden
