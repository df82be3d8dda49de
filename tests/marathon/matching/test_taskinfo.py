"""What a task is told."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.mesos.messages import check
from tests.support.marathon.builders import ROLE, T0, V0, offer, spec

TASK_ID = "prod_web.instance-9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f._app.1"


def info(app_id: str = "/prod/web", prefix: str = "", **changes: Any) -> dict[str, Any]:
    wanted, found = spec(app_id, **changes), Offer.from_json(offer(gpus=4, ports=[(31005, 31005), (31009, 31009)]))
    matched = match(wanted, found, found.resources, [], behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert isinstance(matched, Match)
    document = task_info(wanted, TASK_ID, found, matched, env_prefix=prefix)
    assert check("mesos.v1.TaskInfo", document) is None
    return document


def environment(**changes: Any) -> dict[str, str]:
    return {v["name"]: v["value"] for v in info(**changes)["command"]["environment"]["variables"]}


def test_a_command_runs_in_a_shell() -> None:
    document = info(cmd="nvidia-smi -L", gpus=1)
    assert document["name"] == "web.prod"
    assert document["task_id"] == {"value": TASK_ID}
    assert document["agent_id"] == {"value": "S0"}
    command = document["command"]
    assert (command["shell"], command["value"]) == (True, "nvidia-smi -L")
    assert "container" not in document
    assert "executor" not in document


def test_resources_are_what_was_matched_for_our_role() -> None:
    resources = {r["name"]: r for r in info(gpus=1)["resources"]}
    assert resources["gpus"]["scalar"] == {"value": 1.0}
    assert all(r["allocation_info"] == {"role": ROLE} for r in resources.values())
    assert resources["ports"]["ranges"]["range"] == [{"begin": 31005, "end": 31005}]


def test_arguments_run_without_a_shell() -> None:
    command = info(cmd=None, args=["sleep", "5"])["command"]
    assert (command["shell"], command["value"], command["arguments"]) == (False, "sleep", ["sleep", "5"])


def test_arguments_of_an_image_go_to_its_entrypoint() -> None:
    container = {"type": "MESOS", "docker": {"image": "nvidia/cuda", "forcePullImage": True}}
    document = info(cmd=None, args=["-L"], container=container)
    assert "value" not in document["command"]
    image = {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}, "cached": False}
    assert document["container"] == {"type": "MESOS", "mesos": {"image": image}}


def test_an_image_may_bring_its_own_command() -> None:
    command = info(cmd=None, container={"type": "MESOS", "docker": {"image": "x"}})["command"]
    assert command["shell"] is False
    assert "value" not in command


def test_the_docker_engine_is_told_the_task_id() -> None:
    docker = info(container={"type": "DOCKER", "docker": {"image": "x", "privileged": True}})["container"]["docker"]
    assert docker["parameters"] == [{"key": "label", "value": f"MESOS_TASK_ID={TASK_ID}"}]
    assert docker["privileged"] is True


def test_host_volumes_and_linux_settings() -> None:
    volume = {"containerPath": "/data", "hostPath": "/srv", "mode": "RO"}
    linux = {"ipcInfo": {"mode": "PRIVATE", "shmSize": 64}, "seccomp": {"profileName": "p", "unconfined": False}}
    container = info(container={"type": "MESOS", "volumes": [volume], "linuxInfo": linux})["container"]
    assert container["volumes"] == [{"container_path": "/data", "host_path": "/srv", "mode": "RO"}]
    assert container["linux_info"] == {
        "ipc_mode": "PRIVATE",
        "shm_size": 64,
        "seccomp": {"unconfined": False, "profile_name": "p"},
    }


def test_grace_period_limits_labels_user_and_files() -> None:
    document = info(
        taskKillGracePeriodSeconds=7,
        resourceLimits={"cpus": "unlimited", "mem": 64},
        labels={"a": "b"},
        user="nobody",
        fetch=[{"uri": "http://h/a.tgz", "destPath": "b"}],
    )
    assert document["kill_policy"] == {"grace_period": {"nanoseconds": 7_000_000_000}}
    assert document["limits"] == {"cpus": {"value": "Infinity"}, "mem": {"value": 64.0}}
    assert document["labels"] == {"labels": [{"key": "a", "value": "b"}]}
    assert document["command"]["user"] == "nobody"
    uri = {"value": "http://h/a.tgz", "extract": True, "executable": False, "cache": False, "output_file": "b"}
    assert document["command"]["uris"] == [uri]


def test_discovery_names_the_ports() -> None:
    ports = info(portDefinitions=[{"port": 0, "name": "api", "protocol": "udp,tcp", "labels": {"VIP_0": "x"}}])
    labels = {"labels": [{"key": "VIP_0", "value": "x"}]}
    assert ports["discovery"]["visibility"] == "FRAMEWORK"
    assert ports["discovery"]["ports"]["ports"] == [
        {"number": 31005, "protocol": protocol, "name": "api", "labels": labels} for protocol in ("udp", "tcp")
    ]


def test_environment_of_marathon() -> None:
    variables = environment(gpus=1, labels={"my.label": "v", "x" * 493: "too long"})
    assert variables["MESOS_TASK_ID"] == TASK_ID
    assert variables["MARATHON_APP_ID"] == "/prod/web"
    assert variables["MARATHON_APP_VERSION"] == V0
    assert variables["MARATHON_APP_RESOURCE_GPUS"] == "1"
    assert variables["MARATHON_APP_RESOURCE_CPUS"] == "0.1"
    assert variables["MARATHON_APP_RESOURCE_MEM"] == "32.0"
    assert variables["MARATHON_APP_LABELS"] == "MY_LABEL"
    assert variables["MARATHON_APP_LABEL_MY_LABEL"] == "v"
    assert "MARATHON_APP_DOCKER_IMAGE" not in variables
    assert environment()["MARATHON_APP_RESOURCE_GPUS"] == "0"


def test_environment_of_ports() -> None:
    variables = environment(portDefinitions=[{"port": 10007, "name": "my-api"}, {"port": 0}])
    assert (variables["HOST"], variables["PORT"], variables["PORTS"]) == ("h0", "31005", "31005,31009")
    assert (variables["PORT0"], variables["PORT1"]) == ("31005", "31009")
    assert (variables["PORT_10007"], variables["PORT_31009"], variables["PORT_MY_API"]) == ("31005", "31009", "31005")
    assert not any(name.startswith("PORT") for name in environment(portDefinitions=[]))


def test_environment_prefix_is_for_host_and_ports_only() -> None:
    variables = environment(prefix="X_")
    assert variables["X_HOST"] == "h0"
    assert variables["X_PORT0"] == "31005"
    assert "MARATHON_APP_ID" in variables
    assert "HOST" not in variables


@pytest.mark.parametrize("name", ["MESOS_TASK_ID", "PORT0", "MY_OWN"])
def test_the_apps_own_environment_wins(name: str) -> None:
    assert environment(env={name: "mine"})[name] == "mine"
