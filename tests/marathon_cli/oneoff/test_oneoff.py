"""What a one-off run asks of Marathon, and what its end means for a shell."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.oneoff import oneoff
from marathon_cli.oneoff.oneoff import OneOff, Task
from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.definitions.app import AppRules, read_app, unknown_keys
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

VOLUME = {"containerPath": "/data", "hostPath": "/mnt/data", "mode": "RO"}


@pytest.mark.parametrize(
    "order",
    [
        oneoff.Order("run-a-1", None, ["nvidia-smi", "-L"]),
        oneoff.Order("run-a-1", "nvidia/cuda:12", [], gpus=2, volumes=[VOLUME], user="nobody"),
        oneoff.Order("run-a-1", "nvidia/cuda:12", ["x"], env={"A": "b"}, constraints=[["gpu_model", "IS", "T4"]]),
        oneoff.Order("run-a-1", "nvidia/cuda:12", ["x"], hold=True),
    ],
)
def test_the_app_of_a_run_is_valid_runs_one_task_and_does_not_start_it_again(order: oneoff.Order) -> None:
    document = oneoff.document(order)
    app = read_app(document, AppRules())
    assert list(unknown_keys(document)) == []
    assert (app["instances"], app["gpus"], app["portDefinitions"]) == (1, order.gpus, [])
    assert min(app["backoffSeconds"], app["maxLaunchDelaySeconds"]) >= 7 * 24 * 3600
    assert app.get("cmd") == (oneoff.HOLDER if order.hold else None)


def test_a_run_may_have_a_part_of_a_gpu() -> None:
    document = oneoff.document(oneoff.Order("r", None, ["x"], gpus=0, share={"memGiB": 6, "weight": 2}))
    assert read_app(document, AppRules())["gpuShare"] == {"memGiB": 6, "weight": 2, "highPriority": False}


@pytest.mark.parametrize(("text", "amount"), [("6", 6), ("6GiB", 6), ("6g", 6), ("6144MiB", 6)])
def test_memory_of_a_gpu_is_whole_gib(text: str, amount: int) -> None:
    assert oneoff.gib(text) == amount


@pytest.mark.parametrize("text", ["0", "6000MiB", "half", "1.5GiB", ""])
def test_what_is_no_whole_gib_is_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        oneoff.gib(text)
    assert str(refused.value) == golden


@given(st.text(min_size=1), st.booleans())
def test_any_image_or_program_gives_a_name_that_marathon_allows(word: str, is_image: bool) -> None:
    name = oneoff.name_of(word if is_image else None, [word], "0a1b2c")
    assert re.fullmatch(r"run(-[a-z0-9]+)*-0a1b2c", name)


def test_names_tell_what_runs() -> None:
    assert oneoff.name_of("registry:5000/nvidia/cuda:12.4@sha256:0", ["x"], "1") == "run-cuda-1"
    assert oneoff.name_of(None, ["/usr/bin/nvidia-smi", "-L"], "1") == "run-nvidia-smi-1"


@pytest.mark.parametrize(
    ("state", "message", "status"),
    [
        ("TASK_FINISHED", "Command exited with status 0", 0),
        ("TASK_FINISHED", "", 0),
        ("TASK_FAILED", "Command exited with status 7", 7),
        ("TASK_FAILED", "Command terminated with signal Killed", 137),
        ("TASK_KILLED", "Command terminated with signal Terminated", 143),
        ("TASK_FAILED", "Command terminated with signal Segmentation fault", 139),
        ("TASK_FAILED", "Failed to launch container", None),
        ("TASK_ERROR", "Task uses more resources", None),
    ],
)
def test_the_executors_words_become_a_shells_status(state: str, message: str, status: int | None) -> None:
    assert oneoff.exit_status(state, message) == status


def test_the_first_task_of_a_run_is_found_by_its_id() -> None:
    tasks = [
        {"id": "run-a-1.instance-2._app.2"},
        {"id": "run-a-1.instance-2._app.1"},
        {"id": "run-a-10.instance-1._app.1"},
    ]
    assert oneoff.task_of(tasks, "run-a-1") == tasks[1]
    assert oneoff.task_of(tasks, "run-b") is None


def test_volumes_and_constraints_are_read_or_refused_with_an_example(golden: Golden) -> None:
    assert oneoff.volume("/mnt/data:/data:ro") == VOLUME
    assert oneoff.constraint("gpu_model=Tesla-T4") == ["gpu_model", "IS", "Tesla-T4"]
    assert oneoff.constraint("rack:LIKE:a:b=c") == ["rack", "LIKE", "a:b=c"]
    assert oneoff.constraint("hostname:UNIQUE") == ["hostname", "UNIQUE"]
    for bad in ("data:/data", "/data", "/a:/b:rx", "/a:"):
        with pytest.raises(BadInput) as refused:
            oneoff.volume(bad)
        assert str(refused.value) == golden
    for bad in ("T4", ":", "a:"):
        with pytest.raises(BadInput) as refused:
            oneoff.constraint(bad)
        assert str(refused.value) == golden


def test_a_run_that_no_agent_could_ever_have_is_warned_of_before_it_waits(
    marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    slave = {"id": "S0", "hostname": "h", "pid": "slave(1)@h:5051", "active": True, "attributes": {}}
    marathon.on("GET", "/slaves", {"slaves": [{**slave, "resources": {"cpus": 4, "mem": 4096, "gpus": 0}}]})
    marathon.on("POST", "/v2/apps", Answer(201, {}))
    waited = run("run", "--", "nvidia-smi")
    assert waited.exit_code == 1  # somebody has removed it
    assert waited.stderr == golden.hide(app=marathon.sent("POST")[-1].body["id"].strip("/"))
    assert "warning" not in run("run", "--gpus", "0", "--", "nvidia-smi").stderr
    marathon.on("POST", "/v2/apps", Answer(403, {"message": "not today"}))
    assert "warning" not in run("run", "--", "nvidia-smi").stderr, "what is refused never waits"


def test_labels_say_what_a_command_in_an_image_means_and_that_it_gets_the_driver() -> None:
    def labels(**more: Any) -> dict[str, str]:
        return dict(oneoff.document(oneoff.Order("run-a-1", **more))["labels"])

    assert labels(argv=["ls"]) == {"MESOS_GPU_RUN": "true"}
    driver = {"MESOS_GPU_RUN": "true", "com.nvidia.volumes.needed": "nvidia_driver"}
    assert labels(image="ubuntu", argv=["ls"]) == {**driver, "MESOS_GPU_COMMAND": "docker"}
    assert labels(image="ubuntu") == labels(image="ubuntu", argv=["ls"], hold=True) == driver
    assert labels(image="ubuntu", gpus=0, labels={"team": "ml"}) == {"MESOS_GPU_RUN": "true", "team": "ml"}
    assert labels(image="ubuntu", driver=False) == {"MESOS_GPU_RUN": "true"}


@pytest.mark.parametrize(
    "words",
    [
        ("--name", "Bad Name!"),
        ("--name", "-x"),
        ("--device", "nic"),
        ("--device", "nvidia.com/gpu=all"),
        ("--device", "nvidia.com/gpu=0", "--gpus", "2"),
        ("--gpus", "half"),
        ("--gpus", "0.5"),
        ("--cpus", "x"),
    ],
)
def test_what_is_mistyped_is_refused_before_anything_is_sent(
    marathon: ScriptedServer, run: Run, words: tuple[str, ...], golden: Golden
) -> None:
    refused = run("run", *words, "--", "nvidia-smi")
    assert refused.exit_code in (1, 2)
    assert refused.stderr == golden
    assert marathon.sent("POST") == []


def test_a_run_on_several_machines_is_a_gang() -> None:
    app = read_app(oneoff.document(oneoff.Order("r", None, ["x"], nodes=4)), AppRules())
    assert (app["instances"], app["gang"]["size"], app["gang"]["onePerHost"]) == (4, 4, True)
    assert "gang" not in oneoff.document(oneoff.Order("r", None, ["x"]))


@pytest.mark.parametrize(("statuses", "status"), [([0, 0], 0), ([0, 7], 7), ([143, 7], 7), ([137, 143], 137), ([], 0)])
def test_a_run_of_several_ends_as_the_first_that_failed_by_itself(statuses: list[int], status: int) -> None:
    assert oneoff.status_of_all(statuses) == status


@pytest.mark.parametrize(("failure", "status"), [("other", 7), ("seen", 143), (None, 143)])
def test_a_member_that_failed_before_we_looked_tells_how_a_run_on_several_machines_ended(
    failure: str | None, status: int
) -> None:
    message = {"taskId": failure, "state": "TASK_FAILED", "message": "Command exited with status 7"}
    app = {"id": "/r", **({"lastTaskFailure": message} if failure else {})}
    marathon = SimpleNamespace(app=lambda app_id: app if app_id == "/r" else None)
    seen = Task("seen", "S0", "TASK_KILLED", "Command terminated with signal Terminated")
    one = OneOff(marathon, None, "r", lambda: 0.0, None, print, print, {"seen": seen})  # type: ignore[arg-type]
    assert one.end_of_all([seen], 2) == status
    assert one.end_of_all([seen], 1) == 143
