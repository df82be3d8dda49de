"""The words of docker, kubectl, dcos and gcloud do what the table says, and nothing of their own."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from marathon_cli.aliases.table import ALIASES, GATHERINGS, KINDS, MEANT, TOOLS, Alias
from marathon_cli.clients.task_names import TaskRef
from marathon_cli.lazy import load, load_alias
from marathon_cli.registry import ROWS
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

ROW = {row.path: row for row in ROWS}
UUID = "9a3ce12c-6e50-5bcd-9278-4e57c716380b"
TASK = f"train.instance-{UUID}._app.1"
APP: dict[str, Any] = {"id": "/train", "instances": 1, "tasksRunning": 1, "labels": {"team": "vision"}, "tasks": []}
STOPPED = {"id": "/old", "instances": 0, "tasksRunning": 0}
POD = {"id": "/pair", "status": "STABLE", "instances": [{"id": "pair.instance-1"}], "spec": {"id": "/pair"}}
JOB = {
    "id": "nightly",
    "labels": {"team": "nlp"},
    "run": {"cmd": "true"},
    "activeRuns": [{"id": "r9", "status": "ACTIVE", "createdAt": "2026-01-03T00:00:00.000+0000"}],
}


@pytest.fixture
def cluster(marathon: ScriptedServer) -> ScriptedServer:
    """One thing of each kind; what changes them answers with what was asked."""
    marathon.on("GET", "/v2/apps", {"apps": [APP, STOPPED]})
    for app in (APP, STOPPED):
        marathon.on("GET", f"/v2/apps{app['id']}", {"app": app})
    marathon.on("GET", "/v2/pods/::status", Answer(200, [POD]))
    marathon.on("GET", "/v2/pods/pair", {"id": "/pair", "scaling": {"kind": "fixed", "instances": 1}, "containers": []})
    marathon.on("GET", "/v2/pods/pair::status", POD)
    marathon.on("GET", "/v1/jobs", Answer(200, [JOB]))
    marathon.on("GET", "/v1/jobs/nightly", JOB)
    task = {"id": TASK, "appId": "/train", "state": "TASK_RUNNING", "host": "h", "slaveId": "S1"}
    marathon.on("GET", "/v2/tasks", {"tasks": [task]})
    marathon.on("GET", "/slaves", {"slaves": []})
    marathon.on("GET", "/tasks", {"tasks": []})
    changed = {"deploymentId": "d", "version": "v"}
    marathon.on("PUT", "/v2/apps/train", changed)
    marathon.on("DELETE", "/v2/apps/train", changed)
    marathon.on("DELETE", "/v2/apps/old", changed)
    marathon.on("DELETE", "/v2/pods/pair", {})
    marathon.on("DELETE", "/v1/jobs/nightly", {})
    marathon.on("POST", "/v1/jobs/nightly/runs", {"id": "r10"})
    marathon.on("POST", "/v1/jobs/nightly/runs/r9/actions/stop", {})
    marathon.on("POST", "/v2/tasks/delete", changed)
    return marathon


def test_every_alias_leads_to_commands_of_the_registry_and_hides_none() -> None:
    gathered = {one.path for one in GATHERINGS}
    for alias in ALIASES:
        above, _, _ = alias.path.rpartition(" ")
        assert not above or above in gathered | ROW.keys()
        assert alias.tool in TOOLS
        for name in alias.names:
            assert f"{above} {name}".strip() not in ROW.keys() | gathered
        lines = (
            [alias.means] if isinstance(alias.means, str) else [line for each in alias.means.values() for line in each]
        )
        for line in lines:
            words = line.split()
            assert any(" ".join(words[:n]) in ROW for n in (1, 2)), line
        assert isinstance(alias.means, str) != bool(alias.help)
        assert not alias.whole or alias.whole in ROW
    assert len({alias.path for alias in ALIASES}) == len(ALIASES)


def test_no_word_is_both_understood_and_only_hinted_at() -> None:
    understood = {alias.path.rpartition(" ")[0] + " " + name for alias in ALIASES for name in alias.names}
    assert not {word.strip() for word in understood} & MEANT.keys()


@pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: alias.path.replace(" ", "-"))
def test_every_alias_has_help_that_names_what_it_is_here(alias: Alias, run: Run) -> None:
    command = load_alias(alias.path)
    assert load_alias(alias.path) is command
    if alias.listed:
        said = run(*alias.path.split(), "--help")
        assert said.exit_code == 0
        assert said.stdout.startswith(f"Usage: mesos-gpu {alias.path} ")
        lines = (
            [alias.means] if isinstance(alias.means, str) else [line for each in alias.means.values() for line in each]
        )
        for line in lines:
            assert f"mesos-gpu {line.partition(' {}')[0]}" in " ".join(said.stdout.split())


def test_a_command_that_has_other_names_keeps_its_own_options() -> None:
    before = {option for parameter in load(ROW["task list"]).params for option in parameter.opts}
    load_alias("ps")
    assert {option for parameter in load(ROW["task list"]).params for option in parameter.opts} == before


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("ps -q", "task list -q"),
        ("get pods", "task list"),
        ("get po -l team=vision", "task list --label team==vision"),
        ("get deploy", "app list"),
        ("get deployments/train", "app list train"),
        ("get deployment train -o json", "app show train"),
        ("get deployment train -ojson", "app show train"),
        ("get deploy train -o yaml", "app show train -o yaml"),
        ("get deploy train -o wide", "app list train -o wide"),
        ("get deploy -l team=vision -o name", "app list -l team==vision -q"),
        ("get jobs nightly -o json", "job show nightly"),
        ("get cronjobs", "job list --scheduled"),
        ("get nodes --all-namespaces", "agent list"),
        ("top nodes", "agent list"),
        ("node", "agent list"),
        ("node --json", "agent list --json"),
        ("accelerator-types list", "gpu types"),
        ("inspect train", "app show train"),
        ("inspect pod/pair", "pod show pair"),
        ("inspect job/nightly", "job show nightly"),
        ("inspect 9a3ce12c", f"task show {TASK}"),
        ("marathon app list", "app list"),
        ("info", "about"),
    ],
)
def test_what_it_prints_is_what_the_command_prints(cluster: ScriptedServer, run: Run, words: str, same: str) -> None:
    ours, theirs = run(*shlex.split(same)), run(*shlex.split(words))
    assert (theirs.exit_code, theirs.stdout) == (0, ours.stdout), theirs.stderr


@pytest.mark.parametrize(
    ("words", "method", "path", "body"),
    [
        ("stop train", "PUT", "/v2/apps/train", {"instances": 0}),
        ("stop -t 1 deployment/train", "PUT", "/v2/apps/train", {"instances": 0}),
        ("stop nightly", "POST", "/v1/jobs/nightly/runs/r9/actions/stop", None),
        (f"stop {TASK}", "POST", "/v2/tasks/delete", {"ids": [TASK]}),
        ("kill pod/9a3ce12c", "POST", "/v2/tasks/delete", {"ids": [TASK]}),
        ("start job/nightly", "POST", "/v1/jobs/nightly/runs", {}),
        ("rm old", "DELETE", "/v2/apps/old", None),
        ("rm -f train", "DELETE", "/v2/apps/train", None),
        ("rm -f pair", "DELETE", "/v2/pods/pair", None),
        ("delete deployment train", "DELETE", "/v2/apps/train", None),
        ("delete deploy/train", "DELETE", "/v2/apps/train", None),
        ("delete job nightly", "DELETE", "/v1/jobs/nightly", None),
    ],
)
def test_what_is_done_depends_on_what_a_name_means(
    cluster: ScriptedServer, run: Run, words: str, method: str, path: str, body: object
) -> None:
    result = run(*words.split())
    assert result.exit_code == 0, result.stderr
    changes = [request for request in cluster.requests if request.method != "GET"]
    assert [(request.method, request.path, request.body) for request in changes] == [(method, path, body)]


def test_what_runs_is_removed_only_by_force(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    refused = run("rm", "train")
    assert refused.exit_code == 1
    assert refused.stderr == golden
    assert not cluster.sent("DELETE")


def test_of_several_names_those_that_can_be_are_done_and_the_others_named(
    cluster: ScriptedServer, run: Run, golden: Golden
) -> None:
    result = run("rm", "old", "olt")
    assert result.exit_code == 1
    assert result.stderr == golden
    assert [request.path for request in cluster.sent("DELETE")] == ["/v2/apps/old"]


@pytest.mark.parametrize(
    "words",
    [
        *("get deployment trian", "get jobs nihgtly", "describe deployment trian"),
        *("logs trian", "stop node/h", "start pod/9a3ce12c"),
    ],
)
def test_a_name_that_means_nothing_is_named_with_its_kind(
    cluster: ScriptedServer, run: Run, words: str, golden: Golden
) -> None:
    result = run(*words.split())
    assert (result.exit_code, result.stderr) == (1, golden)


def test_options_that_are_not_known_are_bad_usage(cluster: ScriptedServer, run: Run) -> None:
    for words in ("ps --since x", "logs --since 1h train", "get pods --frob", "stop"):
        assert run(*words.split()).exit_code == 2
    note = run("stop", "--time", "3", "train").stderr
    assert "note: how long a task has to end is its app's taskKillGracePeriodSeconds" in note


def test_a_description_is_one_command_after_the_other(cluster: ScriptedServer, run: Run) -> None:
    said = run("describe", "job", "nightly").stdout
    assert said == run("job", "show", "nightly", "-o", "yaml").stdout + "\n" + run("job", "history", "nightly").stdout
    assert run("describe", "train").stdout == run("describe", "deployment/train").stdout


def test_a_word_that_is_none_is_refused_with_what_is_near(run: Run, golden: Golden) -> None:
    assert run("get", "pots").stderr == golden
    assert run("scale", "train").stderr == golden


def test_tasks_are_chosen_by_the_labels_of_their_apps_and_pods(cluster: ScriptedServer, run: Run) -> None:
    def apps(request: Any) -> Answer:
        return Answer(200, {"apps": [APP] if request.query.get("label") in (None, "team==vision") else []})

    cluster.on("GET", "/v2/apps", apps)
    assert run("task", "list", "-l", "team=vision", "-q").stdout == f"{TASK}\n"
    assert run("task", "list", "-l", "team=nlp", "-q").stdout == ""
    assert run("job", "list", "-l", "team in (nlp,x)", "-q").stdout == "nightly\n"
    assert run("job", "list", "-l", "team!=nlp", "-q").stdout == ""
    assert run("job", "list", "-l", "team=").exit_code == 1
    labels = [{"key": "team", "value": "vision"}]
    ended = {"id": TASK, "slave_id": "S1", "state": "TASK_FAILED", "labels": labels}
    cluster.on("GET", "/tasks", {"tasks": [ended, {**ended, "id": "x.instance-1", "labels": []}]})
    assert run("ps", "-a", "-q", "-l", "team=vision").stdout == f"{TASK}\n"


def test_jobs_have_the_columns_of_kubectl(cluster: ScriptedServer, run: Run) -> None:
    ended = {"id": "r1", "createdAt": "2026-01-01T00:00:00.000+0000", "finishedAt": "2026-01-01T00:03:20.000+0000"}
    history = {"successfulFinishedRuns": [ended], "failedFinishedRuns": []}
    cluster.on("GET", "/v1/jobs", Answer(200, [{**JOB, "activeRuns": [], "history": history}]))
    header, row = (line.split() for line in run("get", "jobs").stdout.splitlines())
    at = header.index("COMPLETIONS") - 1  # LAST RUN is two words
    assert row[at : at + 2] == ["1/1", "3m20s"]
    assert row[at + 2].endswith("d")
    assert "history" not in json.loads(run("job", "list", "-o", "json").stdout)[0]


def test_an_empty_list_says_so_and_what_to_do_next_but_not_to_programs(
    marathon: ScriptedServer, run: Run, golden: Golden
) -> None:
    marathon.on("GET", "/v1/jobs", Answer(200, []))
    marathon.on("GET", "/v2/pods/::status", Answer(200, []))
    marathon.on("GET", "/slaves", {"slaves": []})
    for noun in ("app", "task", "job", "pod", "agent"):
        shown = run(noun, "list")
        assert shown.stderr == golden
        assert len(shown.stdout.splitlines()) == 1
        assert (run(noun, "list", "-o", "json").stdout, run(noun, "list", "-o", "json").stderr) == ("[]\n", "")
        assert (run(noun, "list", "-q").stdout, run(noun, "list", "-q").stderr) == ("", "")


def test_kinds_are_those_of_the_table() -> None:
    assert set(KINDS.values()) == {"app", "job", "task", "agent"}


@pytest.mark.parametrize(
    "words",
    [
        ("exec", "train", "-i", "-e", "A=b", "--", "cat", "-n"),
        ("exec", "-i", "-e", "A=b", "train", "--", "cat", "-n"),
        ("exec", "-i", "--env=A=b", "deployment/train", "cat", "-n"),
        ("task", "exec", "-ieA=b", "train", "cat", "-n"),
    ],
)
def test_options_of_exec_stand_where_docker_and_kubectl_have_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    from marathon_cli.commands import task_exec
    from marathon_cli.oneoff import session

    heard: list[object] = []

    def execute(_agent: object, _container: object, argv: tuple[str, ...], wish: Any, **more: Any) -> Any:
        heard.append((list(argv), wish.interactive, more["environment"]))
        return session.End(7)

    task = TaskRef(TASK, "S1", "F", "TASK_RUNNING", {"value": "c"})
    monkeypatch.setattr(task_exec, "find_task", lambda _console, name: (name, task))
    monkeypatch.setattr(session, "execute", execute)
    assert run(*words).exit_code == 7
    assert heard == [(["cat", "-n"], True, {"A": "b"})]
