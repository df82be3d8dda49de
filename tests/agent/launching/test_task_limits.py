"""A task's wishes about limits, rlimits, shared memory, capabilities and secrets."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.agent.launching.launch import refusal, task_container
from mesos_gpu.agent.launching.task_limits import read_settings
from mesos_gpu.agent.launching.terminal import read_terminal
from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.container.spec.linux import RLIM_INFINITY, UNLIMITED, LinuxSettings, Rlimit
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.messages import decode, encode
from tests.support.agent.documents import IDENTITY, framework, task


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
