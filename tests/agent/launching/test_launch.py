"""What a container needs, from the TaskInfo."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.agent.api.container_api import _make_sandbox
from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.agent.launching.executor_launch import executor_container, late_volume
from mesos_gpu.agent.launching.launch import executor_name, executor_resources, refusal, task_container
from mesos_gpu.agent.launching.nested import container_config, seen_of_parent
from mesos_gpu.agent.launching.task_limits import read_settings
from mesos_gpu.agent.launching.terminal import read_terminal
from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.running.networks import domain_socket
from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Volume
from mesos_gpu.container.spec.linux import RLIM_INFINITY, UNLIMITED, LinuxSettings, Rlimit
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import BadInput
from mesos_gpu.executor.agent import Agent
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, IDENTITY, framework, key, scalar, task
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


SOCKET = "/run/agent/agent.sock"


@pytest.mark.parametrize(
    ("networks", "for_all", "image", "told"),
    [
        ([{"name": "net"}], False, False, True),
        ([{"port_mappings": []}], False, False, False),
        ([], True, False, True),
        ([{"name": "net"}], True, True, False),
    ],
)
def test_who_cannot_reach_the_agents_address_is_told_of_its_socket(
    networks: list[Any], for_all: bool, image: bool, told: bool
) -> None:
    identity = replace(IDENTITY, domain_socket=SOCKET, domain_socket_for_all=for_all)
    container: dict[str, Any] = {"type": "MESOS", "network_infos": networks}
    if image:
        container["mesos"] = {"image": {"type": "DOCKER", "docker": {"name": "busybox"}}}
    info = {
        "type": "CUSTOM",
        "executor_id": {"value": "e"},
        "framework_id": {"value": FRAMEWORK_ID},
        "command": {"value": "true"},
        "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)],
        "container": container,
    }
    executor = Executor(ExecutorKey(FRAMEWORK_ID, "e"), info, "c", "/sandbox")
    for who, expected in ((identity, told), (IDENTITY, False)):
        spec = executor_container(who, framework(), executor, [], ExecutorPatience())
        assert (spec.environment.get("MESOS_DOMAIN_SOCKET") == SOCKET) is expected
        assert spec.networks == tuple(one for one in networks if "name" in one)


def test_there_is_a_socket_where_executors_may_need_one() -> None:
    flags = AgentFlags(isolation=("network/cni",))
    assert domain_socket(flags, Path("/run/x")) is None
    assert domain_socket(flags.replace(network_cni_config_dir="/etc/cni"), Path("/run/x")) == Path("/run/x/agent.sock")
    every = flags.replace(http_executor_domain_sockets=True)
    assert domain_socket(every, Path("/run/x")) == Path("/run/x/agent.sock")
    assert domain_socket(every.replace(domain_socket_location="/s"), Path("/run/x")) == Path("/s")


async def test_an_executor_reaches_the_agent_by_a_socket_file_however_long_its_path_is(tmp_path: Path) -> None:
    calls: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(await request.json())
        return web.Response(status=202)

    app = make_app()
    app.router.add_post("/api/v1/executor", answer)
    path = tmp_path / ("a" * 120) / "agent.sock"
    path.parent.mkdir()
    path.write_text("left by an agent that was killed")
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app, path)
    try:
        executor = Agent("192.0.2.99:1", "f", "e", str(path))  # an address that nobody answers at
        status, _ = await asyncio.to_thread(executor.executor_call, {"type": "UPDATE"})
        assert status == 202
        assert calls == [{"framework_id": {"value": "f"}, "executor_id": {"value": "e"}, "type": "UPDATE"}]
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{endpoint.port}/api/v1/executor", json={}) as response,
        ):
            assert response.status == 202, "and by its port, as before"
    finally:
        await endpoint.stop()
    assert not path.exists()


def volume(name: str) -> dict[str, Any]:
    disk = {"persistence": {"id": name}, "volume": {"container_path": name, "mode": "RW"}}
    return {**scalar("disk", 10.0), "reservations": [{"type": "DYNAMIC", "role": "ml"}], "disk": disk}


def shown(name: str) -> Volume:
    return Volume(f"/var/lib/mesos/volumes/roles/ml/{name}", name, owned=True)


INFO = {"executor_id": {"value": "e"}, "command": {"value": "run"}, "resources": [scalar("cpus", 0.1), volume("own")]}
EXECUTOR = Executor(ExecutorKey(FRAMEWORK_ID, "e"), INFO, "c1", "/sandbox")


def test_an_executor_has_its_own_volumes_and_those_of_its_first_tasks_once() -> None:
    infos = [task("a", resources=[volume("data")]), task("b", resources=[volume("data"), volume("own")])]
    tasks = [Task(key(info["name"]), info, "e", "c1", "", hosted=True) for info in infos]
    spec = executor_container(IDENTITY, framework(), EXECUTOR, tasks, ExecutorPatience())
    assert spec.volumes == (shown("own"), shown("data"))


def test_a_volume_that_comes_too_late_is_refused_in_words(golden: Golden) -> None:
    assert late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("own")]), task("d")]) is None
    words = late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("new")])])
    assert words is not None
    assert words == golden


def test_a_task_of_a_group_sees_its_executors_volume_and_nothing_that_it_leads_to(
    tmp_path: Path, golden: Golden
) -> None:
    """The volume lies elsewhere: what is named below it in the executor's sandbox is taken from there."""
    sandbox, data = tmp_path / "sandbox", tmp_path / "volumes" / "data"
    for folder in (sandbox, data / "sub"):
        folder.mkdir(parents=True)
    (data / "way-out").symlink_to("/etc")

    def nested(path: str, *, read_only: bool = False) -> tuple[ContainerConfig, list[Volume]]:
        shared = [Volume(str(data), "data", read_only, owned=True)]
        source = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": path}}
        call = {
            "container_id": {"value": "c", "parent": {"value": "p"}},
            "command": {"value": "true"},
            "container": {"type": "MESOS", "volumes": [{"container_path": "x", "mode": "RW", "source": source}]},
        }
        found = container_config(
            IDENTITY, call, parent_sandbox=str(sandbox), parent_user=None, parent_volumes=tuple(shared)
        )
        return found, shared

    config, shared = nested("data")
    assert config.volumes == (Volume(str(data), "x"),)
    assert seen_of_parent(config, str(sandbox), shared) == [(str(data), str(data))]
    assert nested("data", read_only=True)[0].volumes == (Volume(str(data), "x", read_only=True),)
    inside, shared = nested("data/sub")
    assert seen_of_parent(inside, str(sandbox), shared) == [(str(data / "sub"), str(data))]
    (beside,) = nested("database")[0].volumes
    assert beside.source == str(sandbox / "database")
    parent = Record(container_id="p", step="running", boot_id="b", sandbox=str(sandbox), volumes=tuple(shared))
    with pytest.raises(BadInput) as refused:
        _make_sandbox(nested("data/way-out")[0], parent, sandbox)
    assert str(refused.value) == golden
    _make_sandbox(nested("data/new/deep")[0], parent, sandbox)
    assert (data / "new" / "deep").is_dir()


def linux(**info: Any) -> LinuxSettings:
    return read_settings({"container": {"type": "MESOS", "linux_info": info}})


def rlimit(**limit: Any) -> tuple[Rlimit, ...]:
    return read_settings({"container": {"type": "MESOS", "rlimit_info": {"rlimits": [limit]}}}).rlimits


def test_limits_have_the_executors_share_on_top_and_infinity_is_none() -> None:
    limits = {"cpus": {"value": 1.5}, "mem": {"value": "Infinity"}}
    found = read_settings({"limits": limits}, more_cpus_milli=100, more_mem_bytes=32 << 20)
    assert (found.cpus_limit_milli, found.mem_limit_bytes) == (1600, UNLIMITED)
    found = read_settings({"limits": {"mem": {"value": 256.0}}}, more_mem_bytes=32 << 20)
    assert (found.cpus_limit_milli, found.mem_limit_bytes) == (None, 288 << 20)


def test_rlimits_are_the_systems_and_without_numbers_there_is_none() -> None:
    assert rlimit(type="RLMT_NOFILE", soft=1024, hard="4096") == (Rlimit("RLIMIT_NOFILE", 1024, 4096),)
    assert rlimit(type="RLMT_CORE") == (Rlimit("RLIMIT_CORE", RLIM_INFINITY, RLIM_INFINITY),)
    for wrong in ({"type": "RLMT_CORE", "soft": 1}, {"type": "RLMT_CORE", "soft": 2, "hard": 1}, {"type": "UNKNOWN"}):
        with pytest.raises(BadInput):
            rlimit(**wrong)


def test_linux_info() -> None:
    assert linux(shm_size=64).shm_bytes == 64 << 20
    assert linux().shm_bytes is None
    assert linux(effective_capabilities={"capabilities": ["CHOWN"]}).effective == ("CAP_CHOWN",)
    assert linux(capability_info={"capabilities": ["CHOWN"]}).effective == ("CAP_CHOWN",)
    assert linux(bounding_capabilities={"capabilities": []}).bounding == ()


EMPTY_MEMBERS = {
    "mesos.LinuxInfo": {
        "capability_info": LinuxSettings(effective=()),
        "effective_capabilities": LinuxSettings(effective=()),
        "bounding_capabilities": LinuxSettings(bounding=()),
        "seccomp": BadInput,
    },
    "mesos.ContainerInfo": {
        "docker": LinuxSettings(),
        "mesos": LinuxSettings(),
        "linux_info": LinuxSettings(),
        "rlimit_info": LinuxSettings(),
        "tty_info": LinuxSettings(),
    },
}
"""What an empty sub-message requests, as in Mesos; `LinuxSettings()` is what an absent one requests."""


def optional_messages(type_name: str) -> list[str]:
    fields = pool().FindMessageTypeByName(type_name).fields
    return [field.name for field in fields if field.message_type is not None and not field.is_repeated]


@pytest.mark.parametrize("type_name", EMPTY_MEMBERS)
def test_each_message_of_a_container_has_its_meaning_when_it_is_empty(type_name: str) -> None:
    assert sorted(optional_messages(type_name)) == sorted(EMPTY_MEMBERS[type_name])


@pytest.mark.parametrize("compiled_codec", [True, False])
@pytest.mark.parametrize(
    ("type_name", "name", "wanted"),
    [(kind, name, wanted) for kind, members in EMPTY_MEMBERS.items() for name, wanted in members.items()],
)
def test_an_empty_message_requests_what_it_does_in_mesos(
    type_name: str, name: str, wanted: Any, *, compiled_codec: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled_codec:
        monkeypatch.setattr(compiled, "TABLE", None)
    member = {name: {"image": "x"} if name == "docker" else {}}
    container = member if type_name == "mesos.ContainerInfo" else {"linux_info": member}
    wire = encode("mesos.ContainerInfo", {"type": "MESOS", **container})
    document = {"container": decode("mesos.ContainerInfo", wire)}
    if wanted is BadInput:
        with pytest.raises(BadInput):
            read_settings(document)
    else:
        assert read_settings(document) == wanted
    if name == "tty_info":
        assert read_terminal(document["container"]) == (True, None)


@pytest.mark.parametrize("name", ["capability_info", "effective_capabilities", "bounding_capabilities"])
@pytest.mark.parametrize("empty", [{}, {"capabilities": []}])
def test_an_empty_set_of_capabilities_is_empty_in_json(name: str, empty: dict[str, Any]) -> None:
    found = linux(**{name: empty})
    assert (found.effective, found.bounding) == ((None, ()) if name.startswith("bounding") else ((), None))


@pytest.mark.parametrize(
    "info",
    [
        {"effective_capabilities": {}, "capability_info": {}},
        {"effective_capabilities": {"capabilities": ["CHOWN"]}, "bounding_capabilities": {}},
        {"share_pid_namespace": True},
        {"ipc_mode": "SHARE_PARENT"},
        {"seccomp": {"profile_name": "mine", "unconfined": True}},
        {"seccomp": {}},
        {"effective_capabilities": {"capabilities": ["SYS_ADMIN"]}},
        {"effective_capabilities": {"capabilities": ["CHOWN"]}, "bounding_capabilities": {"capabilities": ["KILL"]}},
    ],
)
def test_what_cannot_be_had_is_refused_in_words(info: dict[str, Any]) -> None:
    assert refusal(task(container={"type": "MESOS", "linux_info": info})) is not None


def secret(data: bytes) -> dict[str, Any]:
    value = {"data": base64.b64encode(data).decode()}
    return {"name": "S", "type": "SECRET", "secret": {"type": "VALUE", "value": value}}


def test_a_secret_by_value_is_a_variable_and_a_reference_is_refused() -> None:
    plain = {"name": "A", "value": "1"}
    assert read_variables({"environment": {"variables": [plain, secret(b"hush")]}}) == {"A": "1", "S": "hush"}
    reference = {"name": "S", "type": "SECRET", "secret": {"type": "REFERENCE", "reference": {"name": "vault"}}}
    for wrong in (reference, secret(b"\xff"), {"name": "S", "type": "SECRET"}):
        with pytest.raises(BadInput, match="'S'"):
            read_variables({"environment": {"variables": [wrong]}})
        assert refusal(task(command={"value": "x", "environment": {"variables": [wrong]}})) is not None


def test_environment_precedence_and_the_user_are_as_flags_say() -> None:
    given = {"MESOS_SANDBOX": "no", "LANG": "C.UTF-8", "OWN": "no", "PATH": "/opt/bin"}
    identity = replace(IDENTITY, executor_environment=given, switch_user=False)
    variables = [{"name": "OWN", "value": "y"}]
    document = task(command={"value": "x", "user": "nobody", "environment": {"variables": variables}})
    spec = task_container(identity, framework(), document, "c")
    assert spec.environment["LANG"] == "C.UTF-8"
    assert spec.environment["PATH"] == "/opt/bin"
    assert spec.environment["OWN"] == "y"
    assert spec.environment["MESOS_SANDBOX"] == str(spec.sandbox)
    assert spec.user is None
    assert task_container(IDENTITY, framework(), document, "c").user == "nobody"
