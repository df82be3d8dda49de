from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.convert.manifests import Conversion, convert, convert_words
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

Environ = dict[str, str]


def done(line: str, environ: Environ | None = None, **how: Any) -> Conversion:
    return convert(line, "line", environ=environ or {}, kind="docker", **how)


def app(line: str, environ: Environ | None = None) -> dict[str, Any]:
    return done(line, environ, form="app").documents[0].document


def said(line: str, environ: Environ | None = None) -> list[str]:
    return [note.message for note in done(line, environ).notes.all]


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("docker run i", 0),
        ("docker run --gpus 2 i", 2),
        ("docker run --gpus=2 i", 2),
        ("docker run --gpus all i", 1),
        ("docker run --gpus device=0 i", 1),
        ("docker run --gpus '\"device=0,2\"' i", 2),
        ('docker run --gpus \'"device=GPU-1,GPU-2","capabilities=compute,utility"\' i', 2),
        ("docker run --gpus count=3,driver=nvidia i", 3),
        ("NV_GPU=0,1 nvidia-docker run i", 2),
        ("NV_GPU='0 1' nvidia-docker run i", 2),
        ("NV_GPU=GPU-1fab sudo -E nvidia-docker run i", 1),
        ("nvidia-docker run i", 1),
        ("docker run --runtime=nvidia i", 1),
        ("docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=1,2,3 i", 3),
        ("docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=void i", 0),
        ("docker run --device /dev/nvidia0 --device=/dev/nvidia1:/dev/nvidia1 --device /dev/nvidiactl i", 2),
        ("docker run --device=/w/run/nodes/nvidia3:/dev/nvidia3 --device=/w/run/nodes/nvidiactl:/dev/nvidiactl i", 1),
        ("podman run --device nvidia.com/gpu=0 --device nvidia.com/gpu=GPU-6f i", 2),
        ("podman run --device nvidia.com/gpu=all i", 1),
        ("/usr/bin/nvidia-docker container create --rm i", 1),
    ],
)
def test_gpus_are_counted_however_they_were_asked_for(line: str, gpus: int) -> None:
    assert app(line).get("gpus", 0) == gpus


def test_devices_of_other_vendors_go_by_their_cdi_names(golden: Golden) -> None:
    line = "podman run --device example.com/nic=0 --device=example.com/nic=1"
    line += " --device nvidia.com/gpu=0 --device /dev/fuse i"
    app = done(line, form="app").documents[0].document
    assert app["labels"]["MESOS_GPU_DEVICES"] == "example.com/nic=0,example.com/nic=1"
    assert app["gpus"] == 1
    assert said(line) == golden
    (lost,) = [note.message for note in done(line).notes.all if note.lost]
    assert lost == golden
    pod = done(line, form="pod").documents[0].document
    assert pod["containers"][0]["labels"] == {"MESOS_GPU_DEVICES": "example.com/nic=0,example.com/nic=1"}


CGPU = "-e ALIYUN_COM_GPU_MEM_CONTAINER=6 -e ALIYUN_COM_GPU_MEM_DEV=15"


@pytest.mark.parametrize(
    ("line", "share"),
    [
        (f"docker run -d --gpus all {CGPU} i", {"memGiB": 6, "cardGiB": 15}),
        (
            f"docker run -d --runtime=nvidia {CGPU} -e ALIYUN_COM_GPU_SCHD_WEIGHT=2 -e ALIYUN_COM_GPU_HIGH_PRIO=1 i",
            {"memGiB": 6, "cardGiB": 15, "weight": 2, "highPriority": True},
        ),
        (
            "docker run -d --gpus all -e ALIYUN_COM_GPU_MEM_CONTAINER=3,1 -e ALIYUN_COM_GPU_VISIBLE_DEVICES=0,1 i",
            {"memGiB": [3, 1], "devices": ["0", "1"]},
        ),
    ],
)
def test_cgpus_variables_are_a_part_of_a_gpu_and_no_whole_one(line: str, share: dict[str, Any]) -> None:
    document = app(line)
    assert document["gpuShare"] == share
    assert "gpus" not in document
    assert "env" not in document


def test_cgpu_turned_off_stays_as_it_is_and_nonsense_is_refused_with_its_place(golden: Golden) -> None:
    off = app("docker run -d --gpus 1 -e ALIYUN_COM_GPU_MEM_CONTAINER=0 i")
    assert (off["gpus"], off["env"]) == (1, {"ALIYUN_COM_GPU_MEM_CONTAINER": "0"})
    with pytest.raises(BadInput) as refused:
        app("docker run -e ALIYUN_COM_GPU_MEM_CONTAINER=six i")
    assert str(refused.value) == golden


def test_nv_gpu_is_also_found_in_the_environment() -> None:
    assert app("nvidia-docker run i", {"NV_GPU": "0,1,2"})["gpus"] == 3
    assert app("docker run i", {"NV_GPU": "0,1,2"}).get("gpus") is None


@pytest.mark.parametrize("text", ["0.5", "half", "-2", "count=x"])
def test_what_is_no_request_for_gpus_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadInput, match=r"^line:1: --gpus: "):
        done(f"docker run --gpus={text} i")


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ("", "job"),
        ("--rm", "job"),
        ("-d", "app"),
        ("--restart always", "app"),
        ("--restart=unless-stopped -d", "app"),
        ("--restart no", "job"),
        ("-d --restart on-failure:3", "job"),
    ],
)
def test_what_ends_is_a_job_and_what_goes_on_is_an_app(options: str, form: str) -> None:
    assert done(f"docker run {options} i").documents[0].form == form


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("docker run i a 'b c'", {"args": ["a", "b c"]}),
        ("docker run --entrypoint sh i -c 'a | b'", {"cmd": "a | b"}),
        ("docker run --entrypoint python -w '/my code' i x.py", {"cmd": "cd '/my code' && exec python x.py"}),
        ("docker run -itv /a:/b:ro -m1g i", {"mem": 1024, "tty": True}),
        ("docker run --cpus 1.5 --memory-reservation 1g -m 2g i", {"cpus": 1.5, "resourceLimits": {"mem": 2048}}),
        ("docker run --cpu-shares=512 i", {"cpus": 0.5}),
        ("docker run -e A=1 -e B -e C=x=y i", {"env": {"A": "1", "B": "b", "C": "x=y"}}),
        ("docker run -l a=b -l c i", {"labels": {"a": "b", "c": ""}}),
        ("docker run --name=My_App i", {"id": "/my-app"}),
        ("docker run -- registry:5000/x/y:1@sha256:00 -d", {"id": "/y", "args": ["-d"]}),
        ("docker run --gpus 1 i", {"upgradeStrategy": {"minimumHealthCapacity": 0.0, "maximumOverCapacity": 0.0}}),
        ("docker run -u 1000:1000 --pull always i", {"user": "1000"}),
        ("docker run --stop-timeout 30 i", {"taskKillGracePeriodSeconds": 30}),
    ],
)
def test_options_become_fields(line: str, part: dict[str, Any]) -> None:
    document = app(line, {"B": "b"})
    assert {key: document.get(key) for key in part} == part


@pytest.mark.parametrize(
    ("options", "volume"),
    [
        ("-v /a:/b", {"containerPath": "/b", "hostPath": "/a", "mode": "RW"}),
        ("--volume=/a:/b:ro,z", {"containerPath": "/b", "hostPath": "/a", "mode": "RO"}),
        ("--mount type=bind,src=/a,dst=/b,readonly", {"containerPath": "/b", "hostPath": "/a", "mode": "RO"}),
    ],
)
def test_folders_of_the_machine_are_volumes(options: str, volume: dict[str, str]) -> None:
    assert app(f"docker run {options} i")["container"]["volumes"] == [volume]


@pytest.mark.parametrize(
    "option", ["-v cache:/b", "-v /b", "-v nvidia_driver_1:/usr/local/nvidia:ro", "--mount target=/x"]
)
def test_other_volumes_are_told_of(option: str) -> None:
    conversion = done(f"docker run {option} i")
    assert "volumes" not in conversion.documents[0].document["run"]
    assert any(note.lost and note.place.path == option.split()[0] for note in conversion.notes.all)


@given(st.sampled_from(["ulimit", "cap-add", "dns", "sysctl", "security-opt", "tmpfs", "userns", "link"]))
def test_options_without_a_counterpart_are_told_of_with_their_line(option: str) -> None:
    conversion = done(f"docker run \\\n  --{option}=x i")
    assert [(note.place.line, note.place.path) for note in conversion.notes.all if note.lost] == [(2, f"--{option}")]


@pytest.mark.parametrize(
    "line",
    [
        "docker run",
        "docker run --gpus",
        "docker run -Z i",
        "docker run -p x:80 i",
        "docker run -p 99999 i",
        "docker run -m lots i",
        "docker run 'i",
    ],
)
def test_a_line_that_docker_would_refuse_is_refused(line: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        done(line)
    assert str(refused.value) == golden


def test_a_command_may_come_as_words_of_which_a_shell_has_made_them() -> None:
    (made,) = convert_words(["docker", "run", "--gpus", "1", "i", "echo $HOME"], environ={}).documents
    assert (made.form, made.document["run"]["args"]) == ("job", ["echo $HOME"])


def test_a_script_without_docker_run_has_nothing_to_run(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        done("docker pull i\nls")
    assert str(refused.value) == golden
    assert said("docker run -v $PWD:/x i") == golden
