"""What a container needs, from the TaskInfo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.launching.launch import executor_name, executor_resources, refusal, task_container
from mesos_gpu.container.spec.config import ImageAsk, Volume
from mesos_gpu.container.spec.runtime_spec import Command
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, IDENTITY, framework, scalar, task
from tests.support.golden import Golden

SANDBOX = f"/var/lib/mesos/slaves/{AGENT_ID}/frameworks/{FRAMEWORK_ID}/executors/t1/runs/c1"


def spec(document: dict[str, Any] | None = None, **info: Any) -> Any:
    return task_container(IDENTITY, framework(**info), document or task(), "c1")


def test_a_shell_command_runs_in_the_shell_and_another_as_its_arguments_say() -> None:
    assert spec(task(line="echo a b")).argv == ("/bin/sh", "-c", "echo a b")
    plain = {"shell": False, "value": "/bin/echo", "arguments": ["echo", "a", "b c"]}
    assert spec(task(command=plain)).argv == ("/bin/echo", "a", "b c")
    assert spec(task(command={"shell": False, "value": "/bin/true"})).argv == ("/bin/true",)


def test_limits_are_the_tasks_and_the_executors_own() -> None:
    made = spec(task(gpus=2))
    assert (made.cpus_milli, made.mem_bytes, made.gpus) == (600, (64 + 32) << 20, 2)


def test_the_environment_is_that_of_a_command_executors_task() -> None:
    assert spec(task(resources=[scalar("cpus", 1.0, "slave_public")])).environment == {
        "LIBPROCESS_IP": "127.0.0.1",
        "LIBPROCESS_PORT": "0",
        "MESOS_AGENT_ENDPOINT": "127.0.0.1:5051",
        "MESOS_ALLOCATION_ROLE": "slave_public",
        "MESOS_CHECKPOINT": "1",
        "MESOS_DIRECTORY": SANDBOX,
        "MESOS_EXECUTOR_ID": "t1",
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "5secs",
        "MESOS_FRAMEWORK_ID": FRAMEWORK_ID,
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
        "MESOS_RECOVERY_TIMEOUT": "15mins",
        "MESOS_SANDBOX": SANDBOX,
        "MESOS_SLAVE_ID": AGENT_ID,
        "MESOS_SLAVE_PID": "slave(1)@127.0.0.1:5051",
        "MESOS_SUBSCRIPTION_BACKOFF_MAX": "2secs",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }


def test_without_checkpointing_there_is_no_recovery() -> None:
    environment = spec(checkpoint=False).environment
    assert environment["MESOS_CHECKPOINT"] == "0"
    assert "MESOS_RECOVERY_TIMEOUT" not in environment


def test_the_commands_own_environment_wins() -> None:
    variables = [{"name": "PATH", "value": "/mine"}, {"name": "MESOS_SANDBOX", "value": "x"}, {"name": "EMPTY"}]
    environment = spec(task(command={"value": "env", "environment": {"variables": variables}})).environment
    assert (environment["PATH"], environment["MESOS_SANDBOX"], environment["EMPTY"]) == ("/mine", "x", "")


def test_the_commands_user_wins_over_the_frameworks() -> None:
    assert spec().user == "root"
    assert spec(task(command={"value": "x", "user": "nobody"})).user == "nobody"
    assert spec(user="").user is None


def test_a_kill_policy_raises_the_shutdown_grace_shown() -> None:
    document = task(kill_policy={"grace_period": {"nanoseconds": 10_000_000_000}})
    assert spec(document).environment["MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"] == "12secs"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("true", "Command Executor (Task: t1) (Command: sh -c 'true')"),
        ("echo hello; sleep 5", "Command Executor (Task: t1) (Command: sh -c 'echo hello; ...')"),
    ],
)
def test_the_executors_name_shows_the_begin_of_the_command(line: str, name: str) -> None:
    assert executor_name(task(line=line)) == name


def test_the_executors_name_shows_a_program_with_its_arguments() -> None:
    for words, shown in ((["a"], "/bin/echo a"), (["a", "b", "c", "d"], "/bin/echo a ...")):
        command = {"shell": False, "value": "/bin/echo", "arguments": words}
        assert executor_name(task(command=command)) == f"Command Executor (Task: t1) (Command: {shown})"


def test_the_executor_itself_has_a_tenth_of_a_cpu_and_32_mb() -> None:
    assert executor_resources(task(resources=[scalar("cpus", 1.0, "r")])) == [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}, "allocation_info": {"role": "r"}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": 32.0}, "allocation_info": {"role": "r"}},
    ]


def test_a_plain_mesos_container_is_no_reason_to_refuse() -> None:
    mapping = {"host_port": 31000, "container_port": 8888}
    assert refusal(task()) is None
    for nameless in ({}, {"port_mappings": [mapping]}):
        assert refusal(task(container={"type": "MESOS", "network_infos": [nameless]})) is None


def test_networks_with_a_name_are_joined_and_libprocess_listens_on_what_they_give() -> None:
    infos = [{"port_mappings": []}, {"name": "one", "labels": {"labels": []}}, {"name": "two"}]
    made = spec({**task(), "container": {"type": "MESOS", "hostname": "web", "network_infos": infos}})
    assert (made.networks, made.hostname) == (tuple(infos[1:]), "web")
    assert made.environment["LIBPROCESS_IP"] == "0.0.0.0"
    made = spec({**task(), "container": {"type": "MESOS", "network_infos": infos[:1]}})
    assert (made.networks, made.hostname) == ((), None)
    assert made.environment["LIBPROCESS_IP"] == "127.0.0.1"


def test_a_terminal_is_asked_for_by_a_tty_info_also_an_empty_one() -> None:
    made = spec({**task(), "container": {"type": "MESOS", "tty_info": {}}})
    assert (made.terminal, made.window) == (True, None)
    made = spec({**task(), "container": {"type": "MESOS", "tty_info": {"window_size": {"rows": 24, "columns": 80}}}})
    assert (made.terminal, made.window) == (True, (24, 80))
    made = spec({**task(), "container": {"type": "MESOS"}})
    assert (made.terminal, made.window) == (False, None)


def test_refusals_name_what_is_missing(golden: Golden) -> None:
    assert refusal({"task_id": {"value": "t"}}) == golden
    uris = [{"value": "hdfs://namenode/x.tgz"}]
    assert "hdfs://namenode/x.tgz" in str(refusal(task(command={"value": "x", "uris": uris})))
    secret = [{"name": "S", "type": "SECRET", "secret": {}}]
    assert str(refusal(task(command={"value": "x", "environment": {"variables": secret}}))) == golden


IMAGE = {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}}


def in_image(**more: Any) -> dict[str, Any]:
    return {"type": "MESOS", "mesos": {"image": IMAGE}, **more}


def docker_image(**more: Any) -> dict[str, Any]:
    return {"image": {"type": "DOCKER", "docker": {"name": "a", **more}}}


def of_source(kind: str, **more: Any) -> dict[str, Any]:
    return {"mode": "RW", "container_path": "/a", "source": {"type": kind, **more}}


SECRET = of_source("SECRET", secret={"value": {"data": ""}})


def test_a_task_in_an_image_has_the_images_path_and_sees_its_sandbox_elsewhere() -> None:
    made = spec(task(line="env", container=in_image()))
    assert made.image == ImageAsk("nvidia/cuda", Command(shell=True, value="env"))
    assert "PATH" not in made.environment
    assert made.environment["MESOS_SANDBOX"] == "/mnt/mesos/sandbox"
    assert made.environment["MESOS_DIRECTORY"] == SANDBOX
    assert made.sandbox == Path(SANDBOX)


def test_a_command_without_a_value_is_for_an_image_to_say() -> None:
    command = {"shell": False, "arguments": ["a", "b"], "user": "nobody"}
    made = spec(task(command=command, container={"type": "MESOS", "mesos": {"image": {**IMAGE, "cached": False}}}))
    asked = Command(shell=False, arguments=("a", "b"))
    assert made.image == ImageAsk("nvidia/cuda", asked, cached=False, user_wins=True)
    assert refusal(task(command=command, container=in_image())) is None
    assert "no value" in str(refusal(task(command=command)))
    assert "no value" in str(refusal(task(command={"shell": True}, container=in_image())))


def test_volumes_are_of_the_host_and_of_the_sandbox() -> None:
    volumes = [
        {"mode": "RO", "container_path": "/data", "host_path": "/srv/data"},
        {"mode": "RW", "container_path": "in", "source": {"type": "HOST_PATH", "host_path": {"path": "/srv"}}},
        {
            "mode": "RW",
            "container_path": "/out",
            "source": {"type": "SANDBOX_PATH", "sandbox_path": {"type": "SELF", "path": "out"}},
        },
    ]
    asked = task(container=in_image(volumes=volumes), labels={"labels": [{"key": "a", "value": "b"}]})
    assert refusal(asked) is None
    made = spec(asked)
    assert made.volumes == (
        Volume("/srv/data", "/data", read_only=True),
        Volume("/srv", "in"),
        Volume("out", "/out"),
    )
    assert made.labels == {"a": "b"}


@pytest.mark.parametrize(
    "container",
    [
        {"type": "DOCKER"},
        in_image(mesos={"image": {"type": "APPC"}}),
        in_image(mesos={"image": {"type": "DOCKER", "docker": {"name": ""}}}),
        in_image(mesos={"image": {"type": "DOCKER", "docker": {"name": "a", "config": {"value": {}}}}}),
        in_image(volumes=[of_source("SANDBOX_PATH", sandbox_path={"type": "PARENT", "path": "a"})]),
        in_image(volumes=[of_source("SECRET", secret={"type": "REFERENCE"})]),
        in_image(volumes=[of_source("SECRET", secret={"value": {"data": "%"}})]),
        in_image(volumes=[{**of_source("SECRET", secret={"value": {"data": ""}}), "container_path": ""}]),
        in_image(volumes=[{"mode": "RW", "container_path": "/a"}]),
        in_image(volumes=[{"mode": "RW", "container_path": "/a", "image": IMAGE}]),
        in_image(volumes=[{"mode": "RW", "container_path": "/a", "source": {"type": "DOCKER_VOLUME"}}]),
    ],
)
def test_what_is_not_supported_of_containers_is_refused(container: dict[str, Any], golden: Golden) -> None:
    assert refusal(task(container=container)) == golden


def test_an_image_needs_no_credentials() -> None:
    assert refusal(task(container=in_image(mesos=docker_image(config={})))) is None


def test_a_task_sees_the_persistent_volumes_among_its_resources() -> None:
    def volume(name: str, path: str, mode: str) -> dict[str, Any]:
        disk = {"persistence": {"id": name}, "volume": {"container_path": path, "mode": mode}}
        reserved = {"reservations": [{"type": "DYNAMIC", "role": "ml/train"}]}
        return {**scalar("disk", 10.0), **reserved, "disk": disk}

    resources = [scalar("cpus", 1.0), volume("v1", "data", "RW"), volume("v2", "/models", "RO")]
    info = task(resources=resources)
    assert refusal(info) is None
    assert task_container(IDENTITY, framework(), info, "c1").volumes == (
        Volume("/var/lib/mesos/volumes/roles/ml train/v1", "data", owned=True),
        Volume("/var/lib/mesos/volumes/roles/ml train/v2", "/models", read_only=True, owned=True),
    )


def test_a_host_path_that_names_a_persistent_volume_shows_that_volume_and_not_the_folder_below_it(
    golden: Golden,
) -> None:
    disk = {"persistence": {"id": "v1"}, "volume": {"container_path": "data", "mode": "RW"}}
    kept = {**scalar("disk", 10.0), "reservations": [{"type": "DYNAMIC", "role": "ml"}], "disk": disk}

    def info(source: str) -> dict[str, Any]:
        again = {"mode": "RW", "container_path": "/var/lib/data", "host_path": source}
        return task(resources=[scalar("cpus", 1.0), kept], container=in_image(volumes=[again]))

    folder = "/var/lib/mesos/volumes/roles/ml/v1"
    assert task_container(IDENTITY, framework(), info("data"), "c1").volumes == (
        Volume(folder, "/var/lib/data"),
        Volume(folder, "data", owned=True),
    )
    assert task_container(IDENTITY, framework(), info("other"), "c1").volumes[0] == Volume("other", "/var/lib/data")
    assert task_container(IDENTITY, framework(), info("x/.././data/"), "c1").volumes[0].source == folder
    assert refusal(info("/data/sub")) is None
    assert str(refusal(info("data/sub"))) == golden
