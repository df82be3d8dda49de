"""Doors that are set up: found, and judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.doors import find_doors
from mesos_gpu.doctor.facts import Door, Facts
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.doors.common.launchers import write_launcher
from mesos_gpu.errors import Unavailable
from tests.support.golden import Golden


def test_doors_are_found_and_what_is_wrong_with_each(tmp_path: Path, golden: Golden) -> None:
    programs, cdi = tmp_path / "usr/local/bin", tmp_path / "etc/cdi"
    assert list(find_doors(tmp_path)) == []
    write_launcher(programs, "nvidia-docker", "mesos_gpu.doors.nvidia_docker.cli", agent="http://127.0.0.1:1")
    gone = write_launcher(programs, "nvidia-container-runtime-hook", "mesos_gpu.doors.oci.hook")
    gone.write_text(gone.read_text().replace(sys.executable, "/nowhere/python"))
    (programs / "nvidia-container-runtime").write_text("#!/bin/sh\n# NVIDIA's own\n")
    cdi.mkdir(parents=True)
    (cdi / "mesos-gpu.json").write_text("{}")
    hook, docker, broken = find_doors(tmp_path)
    assert (hook.gives, hook.problem) == (
        golden,
        golden,
    )
    assert docker.problem == golden
    assert broken.problem == golden
    words = [sys.executable, "--agent", "http://127.0.0.1:1", "lease"]
    edits = {"hooks": [{"args": words}]}
    (cdi / "mesos-gpu.json").write_text(json.dumps({"devices": [{"containerEdits": edits}]}))
    assert list(find_doors(tmp_path))[-1].problem == golden


def test_what_another_installed_under_that_name_stays(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "nvidia-docker").write_text("#!/bin/sh\n")
    with pytest.raises(Unavailable) as refused:
        write_launcher(tmp_path, "nvidia-docker", "mesos_gpu.doors.nvidia_docker.cli")
    assert str(refused.value) == golden


def test_a_door_that_does_not_open_is_a_problem_and_none_is_nothing() -> None:
    doors = (Door("docker run --gpus", "/p"), Door("CDI", "/c", "it is not a CDI file of GPUs"))
    good, bad = [finding for finding in examine(Facts(doors=doors)) if finding.check == "door"]
    assert (good.verdict, good.found) == (Verdict.OK, "docker run --gpus (/p)")
    assert (bad.verdict, bad.found) == (Verdict.PROBLEM, "CDI (/c): it is not a CDI file of GPUs")
    assert [finding for finding in examine(Facts()) if finding.check == "door"] == []
