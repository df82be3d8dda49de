"""Doors that are set up: found, and judged."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.doors import find_doors, stale
from mesos_gpu.doctor.facts import Door, Facts, RunningAgent
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.doctor.kubernetes_doors import kubernetes_doors
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


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as made:
        for name in ("device-plugins", "pod-resources"):
            (Path(made) / "var/lib/kubelet" / name).mkdir(parents=True)
        yield Path(made)


def listening(stack: ExitStack, path: Path) -> Path:
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    made.bind(str(path))
    made.listen()
    return path


def test_an_agents_sockets_are_judged_by_who_answers(root: Path, golden: Golden) -> None:
    flags = {"device_plugins_dir": str(root), "pod_resources_socket": str(root / "pods.sock")}
    agent = RunningAgent("http://127.0.0.1:5051", flags)
    plugins, pods = kubernetes_doors([agent], root)
    assert plugins.problem == golden
    assert pods.problem == golden
    assert plugins.mend == golden
    with ExitStack() as stack:
        listening(stack, root / "kubelet.sock")
        assert next(iter(kubernetes_doors([agent], root))).problem == ""
    assert next(iter(kubernetes_doors([agent], root))).problem == golden
    assert list(kubernetes_doors([RunningAgent("http://127.0.0.1:5051")], root)) == []


def test_our_plugin_needs_itself_a_kubelet_and_what_pods_have(root: Path, golden: Golden) -> None:
    folder, pods = root / "var/lib/kubelet/device-plugins", root / "var/lib/kubelet/pod-resources/kubelet.sock"

    def only() -> Door:
        (door,) = kubernetes_doors([], root)
        return door

    with ExitStack() as before:
        path = listening(before, folder / "mesos-gpu-7-1.sock")
    assert only().problem == golden
    with ExitStack() as stack:
        listening(stack, folder / "mesos-gpu-8-1.sock")
        assert only().problem == golden
        listening(stack, folder / "kubelet.sock")
        assert only().problem == golden
        listening(stack, pods)
        assert only() == Door(golden, str(folder / "mesos-gpu-8-1.sock"))
    assert path.exists()


def spec(*names: str, mounts: tuple[str, ...] = ()) -> dict[str, Any]:
    edits = {"mounts": [{"hostPath": path, "containerPath": "/x"} for path in mounts]}
    return {"devices": [{"name": name} for name in names], "containerEdits": edits}


def test_a_cdi_file_is_held_against_the_gpus_and_files_that_there_are(tmp_path: Path, golden: Golden) -> None:
    assert stale(spec("0", "GPU-a", "all", mounts=(str(tmp_path),)), ["GPU-a"]) == ""
    words = stale(spec("GPU-a", "MIG-b", mounts=("/nowhere/libcuda.so",)), ["GPU-a", "GPU-c"])
    assert words == golden
    assert stale({"devices": []}, []) == ""


def test_the_mending_is_the_doors_own(golden: Golden) -> None:
    facts = Facts(doors=(Door("a", "/a", "broken", "mend it so"), Door("b", "/b", "broken")))
    first, second = [finding for finding in examine(facts) if finding.check == "door"]
    assert first.mend == "mend it so"
    assert second.mend == golden
