"""Kubernetes' doors, and CDI files that are no longer so."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.doors import stale
from mesos_gpu.doctor.facts import Door, Facts, RunningAgent
from mesos_gpu.doctor.kubernetes_doors import kubernetes_doors
from tests.support.golden import Golden


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
