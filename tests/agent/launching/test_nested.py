"""What an operator's calls about containers become, and how ends are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.launching.nested import (
    container_config,
    container_id_of,
    container_name,
    id_problem,
    seen_of_parent,
    session_config,
    signal_of,
    wait_shown,
)
from mesos_gpu.container.spec.config import ContainerConfig, Termination, Volume
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput
from tests.support.agent.documents import IDENTITY, scalar
from tests.support.golden import Golden

MIB = 1 << 20
UNKNOWN = {"variables": [{"name": "A", "type": "SECRET", "secret": {"type": "REFERENCE"}}]}


@pytest.mark.parametrize(("parent", "quota"), [(None, 8 * MIB), ("/sandbox", 0)])
def test_the_disk_of_a_standalone_container_is_its_quota_and_a_nested_one_is_in_its_parents(
    parent: str | None, quota: int
) -> None:
    name = {"value": "c"} if parent is None else {"value": "c", "parent": {"value": "p"}}
    call = {"container_id": name, "command": {"value": "true"}, "resources": [scalar("disk", 8.0)]}
    config = container_config(IDENTITY, call, parent_sandbox=parent, parent_user=None)
    assert config.disk_bytes == quota
    assert config.sandbox == Path(f"{parent or IDENTITY.work_dir}/containers/c")


def test_who_was_ended_for_memory_or_disk_is_shown_with_the_limit() -> None:
    disk = wait_shown(Termination(signal=9, message="too much", disk_limit_bytes=8 * MIB))
    assert disk["reason"] == "REASON_CONTAINER_LIMITATION_DISK"
    assert disk["limitation"]["resources"] == [{"name": "disk", "type": "SCALAR", "scalar": {"value": 8.0}}]
    memory = wait_shown(Termination(signal=9, oom=True, mem_limit_bytes=8 * MIB))
    assert (memory["state"], memory["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LIMITATION_MEMORY")
    assert wait_shown(Termination(exit_code=3)) == {"exit_status": 3 << 8}


def nested(*parts: str) -> dict[str, Any]:
    return container_id_of(".".join(parts))


def config_of(call: dict[str, Any], **more: Any) -> ContainerConfig:
    given = {"container_id": nested("p", "c"), "command": {"value": "true"}, **call}
    return container_config(IDENTITY, given, **{"parent_sandbox": "/sandbox", "parent_user": None, **more})


def in_parent(path: str, **more: Any) -> dict[str, Any]:
    source = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": path}}
    return {"container": {"volumes": [{"container_path": "/seen", "mode": "RW", "source": source, **more}]}}


def test_a_name_is_the_parents_and_its_own_between_dots_and_back() -> None:
    document = {"value": "check", "parent": {"value": "task", "parent": {"value": "executor"}}}
    assert container_name(document) == "executor.task.check"
    assert container_id_of("executor.task.check") == document


@pytest.mark.parametrize(
    "document",
    [
        {"value": ""},
        {"value": "a", "parent": {}},
        {"value": "a/b"},
        {"value": "a", "parent": {"value": "..\n"}},
        nested(*(f"c{n}" for n in range(32))),
    ],
)
def test_an_id_that_cannot_be_a_folders_name_is_refused(document: dict[str, Any], golden: Golden) -> None:
    assert id_problem(document) == golden


@pytest.mark.parametrize("levels", [2, 31])
def test_an_id_has_up_to_31_levels(levels: int) -> None:
    assert id_problem(nested(*(f"c{n}" for n in range(levels)))) is None


def test_a_nested_container_has_no_gpus_of_its_own_and_its_parents_user_unless_it_names_one() -> None:
    made = config_of({"resources": [scalar("gpus", 2), scalar("cpus", 0.5), scalar("mem", 64)]}, parent_user="nobody")
    assert (made.gpus, made.cpus_milli, made.mem_bytes, made.user) == (0, 500, 64 * MIB, "nobody")
    assert config_of({"command": {"value": "true", "user": "www"}}, parent_user="nobody").user == "www"
    alone = config_of({"container_id": {"value": "c"}, "resources": [scalar("gpus", 2)]}, parent_sandbox=None)
    assert (alone.gpus, alone.standalone, made.standalone) == (2, True, False)


def test_of_the_environment_it_has_what_its_command_says_and_where_its_sandbox_is() -> None:
    variables = [{"name": "MESOS_TASK_ID", "value": "mine"}, {"name": "A", "value": "b"}]
    made = config_of({"command": {"value": "true", "environment": {"variables": variables}}})
    assert {key: made.environment[key] for key in made.environment if key != "PATH"} == {
        "MESOS_TASK_ID": "mine",
        "A": "b",
        "MESOS_SANDBOX": "/sandbox/containers/c",
    }


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ({"command": {"value": "x", "environment": UNKNOWN}}, {}),
        ({"resources": [scalar("gpus", 0.5)]}, {}),
        ({"resources": [{"name": "cpus", "type": "SCALAR"}]}, {}),
        (in_parent("data"), {"parent_sandbox": None}),
        (in_parent("/etc"), {}),
        (in_parent("a/../.."), {}),
        (in_parent(""), {}),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_refused_in_words(
    call: dict[str, Any], more: dict[str, Any], golden: Golden
) -> None:
    with pytest.raises(BadInput) as refused:
        config_of(call, **more)
    assert str(refused.value) == golden


def test_a_path_of_the_parent_is_in_its_sandbox_or_in_the_volume_that_it_has_there() -> None:
    theirs = [Volume("/volumes/v1", "kept", True), Volume("/volumes/v2", "open", False)]
    made = {
        path: config_of(in_parent(path), parent_volumes=theirs).volumes[0]
        for path in ("data", "kept/model", "open", "keptless")
    }
    assert made == {
        "data": Volume("/sandbox/data", "/seen", False),
        "kept/model": Volume("/volumes/v1/model", "/seen", True),
        "open": Volume("/volumes/v2", "/seen", False),
        "keptless": Volume("/sandbox/keptless", "/seen", False),
    }


def test_what_a_volume_shows_of_the_parents_may_not_lead_out_of_it() -> None:
    theirs = [Volume("/volumes/v1", "kept", False)]
    for path, source, home in (("data", "/sandbox/data", "/sandbox"), ("kept/a", "/volumes/v1/a", "/volumes/v1")):
        config = config_of(in_parent(path), parent_volumes=theirs)
        assert seen_of_parent(config, "/sandbox", theirs) == [(source, home)]
    own = {"container_path": "scratch", "mode": "RW", "source": {"sandbox_path": {"type": "SELF", "path": "s"}}}
    host = {"container_path": "/mnt", "mode": "RO", "host_path": "/srv"}
    assert seen_of_parent(config_of({"container": {"volumes": [own, host]}}), "/sandbox", theirs) == []


def test_a_session_has_a_command_perhaps_a_terminal_and_nothing_of_its_own_beside() -> None:
    command = {
        "shell": False,
        "value": "/bin/sh",
        "arguments": ["sh", "-i"],
        "user": "nobody",
        "environment": {"variables": [{"name": "TERM", "value": "xterm"}, {"name": "EMPTY"}]},
    }
    container = {"type": "MESOS", "tty_info": {"window_size": {"rows": 24, "columns": 80}}}
    made = session_config({"container_id": nested("p", "s"), "command": command, "container": container})
    assert (made.container_id, made.command) == ("p.s", Command(False, "/bin/sh", ("sh", "-i")))
    assert (made.environment, made.user) == ({"TERM": "xterm", "EMPTY": ""}, "nobody")
    assert (made.terminal, made.window) == (True, (24, 80))
    plain = session_config({"container_id": nested("p", "s"), "command": {"value": "ls"}})
    assert (plain.command, plain.terminal, plain.window) == (Command(True, "ls", ()), False, None)


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"command": {"value": "x", "environment": UNKNOWN}},
        {"command": {"value": "x"}, "container": {"volumes": [{"container_path": "a"}]}},
        {"command": {"value": "x"}, "container": {"mesos": {"image": {"type": "DOCKER"}}}},
    ],
)
def test_a_session_that_cannot_be_is_refused(call: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        session_config({"container_id": nested("p", "s"), **call})
    assert str(refused.value) == golden


def test_a_container_is_killed_by_the_signal_asked_for_or_sigkill() -> None:
    assert (signal_of({"signal": 15}), signal_of({})) == (15, 9)
