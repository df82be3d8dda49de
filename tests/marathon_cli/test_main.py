"""How commands end: exit statuses, one message, no traceback; and how quickly they begin."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from marathon_cli.aliases.table import MEANT
from marathon_cli.console.console import Console
from marathon_cli.lazy import load
from marathon_cli.registry import ROWS
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

HEAVY = ("requests", "rich", "jsonschema", "yaml", "aiohttp", "msgspec", "mesos_gpu.local")
NOT_FOR_ADDING = (
    *(name for name in HEAVY if name != "msgspec"),
    *("urllib3", "concurrent.futures", "logging", "importlib.resources", "shutil", "traceback"),
    *("mesos_gpu.marathon.model.instances", "mesos_gpu.marathon.why.facts", "mesos_gpu.marathon.why.smallest"),
    *(
        "marathon_cli.show.why_facts",
        "marathon_cli.changes.rollout",
        "marathon_cli.changes.wait",
        "mesos_gpu.marathon.why.answer",
    ),
)
"""What costs time to import, and no app that is fine needs when it is added: offers are matched, and that is all."""


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    whole = {**{key: value for key, value in os.environ.items() if key != "MARATHON_URL"}, **env}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=whole, timeout=60, check=False)


def test_the_program_runs_as_a_module() -> None:
    done = python("-m", "marathon_cli", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: mesos-gpu ")


def test_help_loads_nothing_heavy() -> None:
    names = (*HEAVY, "json", "difflib", "http.client", "ssl", "asyncio")
    code = f"import sys, marathon_cli.main; print([name for name in {names} if name in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


def test_the_registry_says_what_each_command_says_of_itself() -> None:
    for row in ROWS:
        command = load(row)
        assert command.name == row.path.rpartition(" ")[2]
        if row.where:
            assert (command.help or "").split("\n\n")[0].replace("\n", " ").strip() == row.help, row.path


def test_what_others_call_a_command_is_told_by_its_name_here(run: Run, golden: Golden) -> None:
    said = run("app", "logs", "train").stderr
    assert said.replace("cli", "mesos-gpu") == golden
    assert run("marathon", "task", "stop", "x").stderr == golden
    paths = {row.path for row in ROWS} | {"--version"}
    for word, meant in MEANT.items():
        assert word not in paths
        assert paths.issuperset(meant.split("` or `mesos-gpu ")), meant


def test_every_command_of_the_registry_is_in_a_group_and_has_help(run: Run) -> None:
    paths = {row.path for row in ROWS}
    assert len(paths) == len(ROWS)
    for row in ROWS:
        parent, _, _ = row.path.rpartition(" ")
        assert not parent or parent in paths
        assert bool(row.section) == (not parent), row.path
        result = run(*row.path.split(), "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: mesos-gpu {row.path} ")


@pytest.mark.parametrize("form", ["table", "wide", "json", "name", "jsonpath={[*].id}"])
def test_output_that_is_no_terminal_does_not_load_rich(marathon: ScriptedServer, form: str) -> None:
    code = "import sys, atexit; atexit.register(lambda: print('rich' in sys.modules)); "
    code += f"from marathon_cli.main import cli; cli.main(['app', 'list', '-o', {form!r}])"
    assert python("-c", code, MARATHON_URL=marathon.url).stdout.endswith("False\n")


def test_no_command_loads_anything_heavy_before_it_runs() -> None:
    loading = "; ".join(f"load(ROWS[{n}])" for n in range(len(ROWS)))
    code = "import sys, marathon_cli.main; from marathon_cli.lazy import load; from marathon_cli.registry import ROWS; "
    code += f"{loading}; print([name for name in {HEAVY} if name in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("gpus", [0, 1])
def test_adding_an_app_that_is_fine_loads_only_what_it_needs(
    marathon: ScriptedServer, tmp_path: Path, gpus: int, golden: Golden
) -> None:
    total = {"cpus": 8, "gpus": 4, "mem": 8192, "disk": 8192, "ports": "[31000-32000]"}
    marathon.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": {"mesos_leader_ui_url": marathon.url}})
    agent = {"id": "a", "hostname": "h", "pid": "slave(1)@127.0.0.1:1", "active": True, "resources": total}
    marathon.on("GET", "/slaves", {"slaves": [agent]})
    marathon.on("POST", "/v2/apps", Answer(201, {"id": "/x", "deployments": [{"id": "d"}]}))
    file = tmp_path / "app.json"
    file.write_text(f'{{"id": "/x", "cmd": "sleep 1000", "gpus": {gpus}}}')
    code = f"import sys, atexit; atexit.register(lambda: print([n for n in {NOT_FOR_ADDING} if n in sys.modules])); "
    code += f"from marathon_cli.main import cli; cli.main(['app', 'add', {str(file)!r}])"
    done = python("-c", code, MARATHON_URL=marathon.url)
    assert (done.stdout, done.stderr) == (golden, "")
    assert "/slaves" in [request.path for request in marathon.requests]


def test_help_of_a_group_imports_no_command() -> None:
    code = (
        "import sys; from marathon_cli.main import cli; import atexit; atexit.register(lambda: print([name for name in "
    )
    code += "sys.modules if name.startswith('marathon_cli.commands')])); cli.main(['app', '--help'])"
    assert python("-c", code).stdout.endswith("[]\n")


def test_a_command_that_is_nearly_right_is_offered(run: Run, golden: Golden) -> None:
    assert run("app", "lst").stderr == golden
    assert run("tsk").stderr == golden


def test_the_words_of_dcos_marathon_are_understood(marathon: ScriptedServer, run: Run) -> None:
    assert run("marathon", "app", "list", "-q").exit_code == 0
    assert run("marathon", "--help").exit_code == 0
    assert run("marathon", "app", "--help").stdout.startswith("Usage: mesos-gpu marathon app ")


def test_ctrl_c_is_one_line_that_says_what_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        click.get_current_context().ensure_object(Console).goes_on = "deployment d-1 continues"
        raise KeyboardInterrupt

    monkeypatch.setattr("marathon_cli.clients.marathon.Marathon.apps", interrupted)
    result = run("app", "list")
    assert (result.exit_code, result.stderr) == (130, "mesos-gpu: interrupted; deployment d-1 continues\n")


def test_forms_of_output_stand_in_any_order_and_the_last_counts(marathon: ScriptedServer, run: Run) -> None:
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a"}]})
    assert run("app", "list", "-q").stdout == "/a\n"
    assert run("app", "list", "-o", "json", "-o", "name").stdout == "/a\n"
    assert run("app", "list", "-o", "jsonpath={[0].id}").stdout == "/a\n"
    assert run("app", "list", "-o", "yaml").stdout == "- id: /a\n"
    refused = run("app", "list", "-o", "jsonpath={[}")
    assert refused.exit_code == 2
    assert "was expected" in refused.stderr


def test_bad_usage_is_exit_status_2(run: Run) -> None:
    assert run("app", "lst").exit_code == 2
    assert run("task", "log").exit_code == 2
    assert run("up", "--agents", "0").exit_code == 2


def test_add_without_a_file_on_a_terminal_is_bad_usage_and_does_not_wait(golden: Golden) -> None:
    ours, theirs = pty.openpty()
    try:
        words = [sys.executable, "-m", "marathon_cli", "app", "add"]
        done = subprocess.run(words, stdin=theirs, capture_output=True, text=True, timeout=60, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert done.stderr == golden


def test_our_own_bug_is_exit_status_3_without_a_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("marathon_cli.clients.marathon.Marathon.apps", broken)
    result = run("app", "list")
    assert (result.exit_code, result.stderr) == (3, golden)
    assert "Traceback" in run("--debug", "app", "list").stderr
    assert "Traceback" in run("app", "list", "--debug").stderr


def test_without_any_marathon_the_message_says_how_to_start_one(tmp_path: Path, golden: Golden) -> None:
    done = python("-m", "marathon_cli", "app", "list", MESOS_GPU_WORK_DIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr == golden


def test_an_option_counts_more_than_the_environment(server: ScriptedServer, run: Run) -> None:
    server.on("GET", "/v2/apps", {"apps": []})
    server.on("GET", "/v2/deployments", Answer(200, []))
    for words in (("--marathon-url", "127.0.0.1:1", "app", "list"), ("app", "list", "--marathon_url", "127.0.0.1:1")):
        assert run(*words).exit_code == 1
    assert run("app", "list").exit_code == 0


def test_a_work_dir_that_is_named_counts_more_than_marathon_url(run: Run, tmp_path: Path, golden: Golden) -> None:
    assert run("app", "list", "--work-dir", str(tmp_path)).stderr == golden


def test_a_reader_that_has_enough_is_no_error(server: ScriptedServer) -> None:
    server.on("GET", "/v2/apps", {"apps": [{"id": f"/a{n}", "cmd": "x" * 40} for n in range(5000)]})
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "marathon_cli", "app", "list", "--json", "--marathon-url", server.url],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    os.close(read)
    _, stderr = process.communicate(timeout=60)
    assert stderr == ""
    assert process.returncode == 1


def shell(line: str, url: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which $CLI is the program."""
    env = {**os.environ, "CLI": f"{sys.executable} -m marathon_cli", "MARATHON_URL": url}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=env, timeout=60, check=False)


def test_a_full_disk_is_no_bug_of_ours(marathon: ScriptedServer, golden: Golden) -> None:
    done = shell("$CLI app list >/dev/full", marathon.url)
    assert (done.returncode, done.stderr) == (
        1,
        golden,
    )


def test_closed_streams_are_as_good_as_dev_null(marathon: ScriptedServer, golden: Golden) -> None:
    done = shell("$CLI app list >&-; echo $?; $CLI app show x 2>&-; echo $?; $CLI app add <&-; echo $?", marathon.url)
    assert done.stdout == "0\n1\n1\n"
    assert done.stderr.splitlines()[1:] == golden
