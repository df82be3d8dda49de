"""`mesos-gpu flags`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Run


def test_flags_are_a_command_that_a_shell_takes_apart_as_meant(run: Run) -> None:
    text = run("flags", "agent", "--devices", "0,1", "--attributes", "name:big one").stdout
    said = subprocess.run(["sh", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[0] == "mesos-gpu-agent"
    assert "--nvidia_gpu_devices=0,1" in said.splitlines()
    assert "--attributes=name:big one" in said.splitlines()


def test_flags_are_given_to_programs_as_values(run: Run) -> None:
    flags = json.loads(run("flags", "master", "--no-scarce", "-o", "json").stdout)
    assert flags["filter_gpu_resources"] is False


def test_the_two_switches_of_dcos_are_read_and_written(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("master_discovery: static\ngpus_are_scarce: 'false'\nmaster_list:\n- 10.0.0.1\n")
    wide = ("--cluster", str(config))
    assert run("flags", "agent", "--as", "dcos", *wide).stdout == (
        "enable_gpu_isolation: 'true'\ngpus_are_scarce: 'false'\n"
    )
    assert "--gpu_scheduling_behavior=unrestricted" in run("flags", "marathon", *wide).stdout
    assert "127.0.0.1 only" in run("flags", "agent", *wide).stderr


def test_a_bad_description_is_told_by_line(run: Run, app_file: Callable[[Any], str], golden: Golden) -> None:
    done = run("flags", "agent", "--cluster", app_file('{\n  "image": true\n}'))
    assert done.exit_code == 1
    assert ":2:" in done.stderr
    assert done.stderr == golden


def test_a_unit_and_the_aws_parameters_are_printed(run: Run) -> None:
    assert run("flags", "agent", "--as", "systemd", "--for", "mesos").stdout.startswith("[Unit]\n")
    done = run("flags", "agent", "--as", "cloudformation")
    assert json.loads(done.stdout)[0]["ParameterKey"] == "CustomAMI"
    assert "of 2017" in done.stderr
