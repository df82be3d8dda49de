"""`mesos-gpu convert`: files, standard input and docker commands in; documents on stdout, what is lost on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support import places
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

CASES = places.TESTS / "marathon_cli" / "convert" / "cases"
GKE = str(CASES / "deployment-gke.yaml")


def test_a_file_becomes_an_app_that_can_be_added(marathon: ScriptedServer, run: Run) -> None:
    converted = run("convert", GKE)
    assert converted.exit_code == 0
    assert json.loads(converted.stdout)["gpus"] == 1
    assert f"{GKE}:73: kind: not carried over: a Service has no counterpart" in converted.stderr
    marathon.on("POST", "/v2/apps", Answer(201, {"id": "/infer", "deployments": [{"id": "d-1"}]}))
    assert run("app", "add", stdin=converted.stdout).exit_code == 0
    assert marathon.sent("POST")[0].body["id"] == "/infer"


@pytest.mark.parametrize("words", [("-",), ()])
def test_standard_input_is_read_too(run: Run, words: tuple[str, ...], golden: Golden) -> None:
    result = run("convert", "-o", "yaml", *words, stdin=(CASES / "cronjob.yaml").read_text())
    assert yaml.safe_load(result.stdout)["schedules"][0]["cron"] == "30 2 * * *"
    assert result.stderr == golden


def test_options_stand_around_a_file_and_before_a_docker_command(run: Run) -> None:
    assert run("convert", GKE, "-q").stdout == "/infer\n"
    result = run("convert", "-o", "json", "docker", "run", "-e", "O=1", "--gpus", "2", "image", "-o", "json")
    assert json.loads(result.stdout)["run"]["args"] == ["-o", "json"]


def test_a_docker_command_may_be_one_quoted_word(run: Run) -> None:
    words = ("docker", "run", "--gpus", "2", "nvidia/cuda", "nvidia-smi")
    assert json.loads(run("convert", " ".join(words)).stdout) == json.loads(run("convert", *words).stdout)
    assert "no such file" in run("convert", "no such file.yaml").stderr


def test_nv_gpu_may_stand_before_the_command_or_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("nvidia-docker", "run", "image")
    assert json.loads(run("convert", "NV_GPU=0,1", *words).stdout)["run"]["gpus"] == 2
    monkeypatch.setenv("NV_GPU", "0 1 2")
    assert json.loads(run("convert", "-o", "json", *words).stdout)["run"]["gpus"] == 3


def test_several_documents_are_a_list_a_table_or_files(run: Run, tmp_path: Path) -> None:
    file = str(CASES / "compose-devices.yaml")
    assert len(json.loads(run("convert", file).stdout)) == 4
    table = run("convert", file, "-o", "table").stdout.splitlines()
    assert table[0].split() == ["KIND", "ID", "GPUS", "CPUS", "MEM"]
    assert ["job", "lab.eval", "1", "1.0", "1024"] in [line.split() for line in table]
    commands = run("convert", file, "--into", str(tmp_path / "new")).stdout.splitlines()
    assert [command.split()[1] for command in commands] == ["job", "app", "app", "app"]
    for command in commands:
        assert json.loads(Path(command.split()[-1]).read_text())["id"]
    # What others depend on is to be added before them.
    assert commands.index(next(c for c in commands if "store" in c)) < commands.index(
        next(c for c in commands if "train" in c)
    )


def test_strict_refuses_what_loses_something(run: Run, tmp_path: Path, golden: Golden) -> None:
    refused = run("convert", GKE, "--strict", "--into", str(tmp_path / "new"))
    assert (refused.exit_code, refused.stdout, (tmp_path / "new").exists()) == (1, "", False)
    assert refused.stderr == golden
    assert run("convert", "--strict", "docker", "run", "-m", "1g", "image").exit_code == 0


def test_to_names_the_form_and_from_what_it_is(run: Run) -> None:
    assert json.loads(run("convert", "--to", "app", "docker", "run", "image").stdout)["id"] == "/image"
    refused = run("convert", "--from", "compose", GKE)
    assert refused.exit_code == 1


def test_bad_use_and_bad_files_are_one_message(run: Run, tmp_path: Path, golden: Golden) -> None:
    assert run("convert", GKE, "another").exit_code == 2
    assert run("convert", str(tmp_path / "none.yaml")).stderr == golden
    bad = run("convert", stdin="apiVersion: v1\nkind: Pod\nspec: [\n")
    assert (bad.exit_code, bad.stdout) == (1, "")
    assert bad.stderr == golden
    assert "Traceback" not in bad.stderr
