"""`list`, `show`, `update` and `remove` do the same for each kind, against a scripted Marathon."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from marathon_cli.commands.apply import KINDS
from marathon_cli.commands.kind import Kind
from marathon_cli.lazy import load
from marathon_cli.registry import ROWS
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

NOUNS = sorted(KINDS)
COMMANDS = ("list", "show", "update", "remove")
VERSION = "2026-01-01T00:00:00.000Z"


class Example(NamedTuple):
    """One of a kind as the server has it, and a change of it."""

    id: str
    path: str
    document: dict[str, Any]
    change: str


APP = {"id": "/train", "cmd": "sleep 9", "cpus": 1, "mem": 32, "instances": 1, "version": VERSION}
POD = {
    "id": "/train",
    "containers": [{"name": "a", "resources": {"cpus": 1, "mem": 32}, "exec": {"command": {"shell": "sleep 9"}}}],
    "scaling": {"kind": "fixed", "instances": 1},
    "version": VERSION,
}
JOB = {"id": "train", "run": {"cmd": "sleep 9", "cpus": 1, "mem": 32, "disk": 0}}
GROUP = {"id": "/train", "apps": [], "pods": [], "groups": [], "version": VERSION}
EXAMPLES = {
    "app": Example("/train", "/v2/apps/train", APP, "cpus=2"),
    "pod": Example("/train", "/v2/pods/train", POD, "scaling.instances=2"),
    "job": Example("train", "/v1/jobs/train", JOB, "run.gpus=1"),
    "group": Example("/train", "/v2/groups/train", GROUP, "enforceRole=true"),
}


@pytest.fixture
def server_with_one_of_each(marathon: ScriptedServer) -> ScriptedServer:
    """A Marathon with an app, a pod, a job and a group of the same name."""
    marathon.on("GET", "/v2/apps", {"apps": [APP]})
    marathon.on("GET", "/v2/apps/train", {"app": APP})
    marathon.on("GET", "/v2/pods/::status", [{"id": "/train", "spec": POD, "instances": []}])
    marathon.on("GET", "/v2/pods/train", POD)
    marathon.on("GET", "/v2/pods/train::status", {"id": "/train", "spec": POD, "instances": []})
    marathon.on("GET", "/v1/jobs", [JOB])
    marathon.on("GET", "/v1/jobs/train", JOB)
    marathon.on("GET", "/v2/groups", {"id": "/", "groups": [GROUP]})
    marathon.on("GET", "/v2/groups/train", GROUP)
    for example in EXAMPLES.values():
        for method in ("PUT", "DELETE"):
            marathon.on(method, example.path, Answer(200, {"deploymentId": "d-1", "id": example.id}))
    return marathon


@pytest.mark.parametrize("kind", KINDS.values(), ids=NOUNS)
def test_each_kind_has_the_four_commands_in_the_registry(kind: Kind) -> None:
    rows = {row.path: row for row in ROWS}
    for name in COMMANDS:
        row = rows[f"{kind.name} {name}"]
        assert (load(row).help or "").partition("\n")[0] == kind.help[name].partition("\n")[0] == row.help


@pytest.mark.parametrize("noun", NOUNS)
def test_list_and_show_return_what_the_server_has(noun: str, server_with_one_of_each: ScriptedServer, run: Run) -> None:
    listed = run(noun, "list", "-o", "name")
    assert (listed.exit_code, listed.stdout.split()) == (0, [EXAMPLES[noun].id]), listed.stderr
    assert "train" in run(noun, "list").stdout.splitlines()[1]
    shown = run(noun, "show", "train")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["id"] == EXAMPLES[noun].id
    assert run(noun, "show", "train", "-o", "table").exit_code == 0


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("words", [("show",), ("update", "x=1"), ("remove",)], ids=COMMANDS[1:])
def test_an_unknown_name_is_refused_with_the_nearest_one(
    noun: str, words: tuple[str, ...], server_with_one_of_each: ScriptedServer, run: Run
) -> None:
    refused = run(noun, words[0], "trian", *words[1:])
    assert refused.exit_code == 1
    assert f"{EXAMPLES[noun].id}?" in refused.stderr
    assert not server_with_one_of_each.sent("PUT")


@pytest.mark.parametrize("noun", NOUNS)
def test_update_and_remove_send_one_request(noun: str, server_with_one_of_each: ScriptedServer, run: Run) -> None:
    changed = run(noun, "update", "train", EXAMPLES[noun].change, "--no-validate", "-o", "json")
    assert changed.exit_code == 0, changed.stderr
    assert json.loads(changed.stdout)["id"] == EXAMPLES[noun].id
    assert [request.path for request in server_with_one_of_each.sent("PUT")] == [EXAMPLES[noun].path]
    removed = run(noun, "remove", "train", "-o", "json")
    assert removed.exit_code == 0, removed.stderr
    assert json.loads(removed.stdout)["id"] == EXAMPLES[noun].id
    assert [request.path for request in server_with_one_of_each.sent("DELETE")] == [EXAMPLES[noun].path]


@pytest.mark.parametrize("noun", ["app", "job", "pod"])
def test_an_update_that_changes_nothing_sends_nothing(
    noun: str, server_with_one_of_each: ScriptedServer, run: Run
) -> None:
    key, _, _ = EXAMPLES[noun].change.partition("=")
    value: Any = EXAMPLES[noun].document
    for step in key.split("."):
        value = value.get(step, {})
    words = [f"{key}={value}"] if value != {} else ["run.cpus=1"]
    assert run(noun, "update", "train", *words).exit_code == 0
    assert not server_with_one_of_each.sent("PUT")


@pytest.mark.parametrize("noun", ["app", "pod"])
def test_a_change_by_another_user_meanwhile_is_not_overwritten(
    noun: str, server_with_one_of_each: ScriptedServer, run: Run
) -> None:
    example = EXAMPLES[noun]
    versions = [example.document, {**example.document, "version": "2027-01-01T00:00:00.000Z"}]
    answers = [Answer(200, {"app": one} if noun == "app" else one) for one in versions]
    server_with_one_of_each.on("GET", example.path, answers)
    assert run(noun, "update", "train", example.change, "--yes").exit_code == 1
    assert not server_with_one_of_each.sent("PUT")
