"""`mesos-gpu run` as docker's and kubectl's users type it: which app is sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer


@pytest.fixture
def sent(marathon: ScriptedServer) -> ScriptedServer:
    """A Marathon that refuses every app, so that a run ends at once."""
    marathon.on("POST", "/v2/apps", Answer(403, {"message": "not today"}))
    marathon.on("GET", "/slaves", {"slaves": []})
    return marathon


def app_of(sent: ScriptedServer, run: Run, *words: str) -> dict[str, Any]:
    result = run("run", *words)
    assert "not today" in result.stderr
    app: dict[str, Any] = sent.sent("POST")[-1].body
    return app


def test_the_line_of_gke(sent: ScriptedServer, run: Run) -> None:
    image = "nvidia/cuda:12.4.1-base-ubuntu22.04"
    line = [
        "gpu-pod",
        f"--image={image}",
        "--limits=nvidia.com/gpu=2,memory=2Gi",
        "--env=A=b",
        "--rm",
        "--restart=Never",
    ]
    app = app_of(sent, run, *line, "--labels=team=vision,tier=x", "--", "nvidia-smi", "-L")
    assert app["id"] == "/gpu-pod"
    assert app["container"]["docker"]["image"] == image
    assert (app["gpus"], app["mem"], app["env"], app["args"]) == (2, 2048, {"A": "b"}, ["nvidia-smi", "-L"])
    assert (app["labels"]["team"], app["labels"]["tier"]) == ("vision", "x")


@pytest.mark.parametrize(
    ("words", "image", "argv", "gpus"),
    [
        (["busybox", "ls", "-l"], "busybox", ["ls", "-l"], 1),
        (["--", "ls", "--image=x"], None, ["ls", "--image=x"], 1),
        (["--image", "busybox", "--", "ls", "--rm"], "busybox", ["ls", "--rm"], 1),
        (["one", "--image", "busybox", "ls"], "busybox", ["ls"], 1),
        (["one", "--image", "busybox"], "busybox", None, 1),
        (["--limits", "cpu=1", "--", "ls"], None, ["ls"], 0),
        (["--limits", "cpu=1", "--requests", "nvidia.com/gpu=1,cpu=9", "--", "ls"], None, ["ls"], 1),
        (["--limits", "nvidia.com/gpu=3", "--gpus", "2", "--", "ls"], None, ["ls"], 2),
    ],
)
def test_image_command_and_gpus(
    sent: ScriptedServer, run: Run, words: list[str], image: str | None, argv: list[str] | None, gpus: int
) -> None:
    app = app_of(sent, run, *words)
    assert (app.get("container", {}).get("docker") or {}).get("image") == image
    assert (app.get("args"), app["gpus"]) == (argv, gpus)
    if "--limits" in words:
        assert app["cpus"] == 1


def test_command_replaces_the_entrypoint(sent: ScriptedServer, run: Run, golden: Golden) -> None:
    app = app_of(sent, run, "x", "--image=busybox", "--command", "--", "sh", "-c", "echo $A")
    assert (app["cmd"], "args" in app) == (golden, False)


def test_a_part_of_a_gpu_by_its_name_at_alibaba(sent: ScriptedServer, run: Run) -> None:
    app = app_of(sent, run, "--limits=aliyun.com/gpu-mem=6", "--", "ls")
    assert (app["gpus"], app["gpuShare"]["memGiB"]) == (0, 6)


def test_labels_with_commas_in_their_values(sent: ScriptedServer, run: Run) -> None:
    app = app_of(sent, run, "--label", "a=x=1,y=2", "-l", "b=1,c=2", "-l", "d=3,4", "--", "ls")
    assert {name: app["labels"][name] for name in "abcd"} == {"a": "x=1,y=2", "b": "1", "c": "2", "d": "3,4"}


@pytest.mark.parametrize(
    "words",
    [
        ["-d", "busybox"],
        ["x", "--image=busybox", "--restart=Always"],
        ["x", "y", "--image=busybox", "--", "ls"],
        ["--label", "=x", "--", "ls"],
        [],
    ],
)
def test_what_no_run_can_is_refused_before_anything_is_sent(
    sent: ScriptedServer, run: Run, words: list[str], golden: Golden
) -> None:
    result = run("run", *words)
    assert result.exit_code in (1, 2)
    assert result.stderr == golden
    assert not sent.sent("POST")
