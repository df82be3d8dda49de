"""Kubernetes' doors that are set up on this machine: whether who should answer at each socket does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mesos_gpu.base.linux.sockets import connect
from mesos_gpu.doctor.facts import Door, RunningAgent

KUBELET, OURS = "kubelet.sock", "mesos-gpu-*.sock"
_PLUGINS, _PODS = "var/lib/kubelet/device-plugins", "var/lib/kubelet/pod-resources"
_ANSWER_S = 2.0
_SEE = "see docs/do/kubernetes.md"


def kubernetes_doors(agents: Sequence[RunningAgent], root: Path = Path("/")) -> Iterator[Door]:
    """Yield the sockets that agents here serve as kubelets do, and our plugin for a kubelet beside them."""
    for agent in agents:
        mend = f"start the agent at {agent.url} again: it makes the socket anew; {_SEE}"
        if folder := agent.flags.get("device_plugins_dir"):
            path = Path(folder) / KUBELET
            yield Door("device plugins for Mesos tasks", str(path), _problem(path, "no plugin can register"), mend)
        if pods := agent.flags.get("pod_resources_socket"):
            words = "node tools are not told which task has which GPU"
            yield Door("PodResources for node tools", str(pods), _problem(Path(pods), words), mend)
    yield from _plugin(root / _PLUGINS, root / _PODS / KUBELET)


def _plugin(folder: Path, pods: Path) -> Iterator[Door]:
    """Judge mesos-gpu-device-plugin, where its socket tells that it is set up."""
    endpoints = sorted(folder.glob(OURS)) if folder.is_dir() else []
    if not endpoints:
        return
    gives = "a kubelet's pods with nvidia.com/gpu"
    answering = [path for path in endpoints if not _problem(path, "")]
    problem, mend = "", f"start mesos-gpu-device-plugin again; {_SEE}"
    if not answering:
        problem = "nobody answers at it: mesos-gpu-device-plugin has ended, and pods get no GPU"
    elif kubelet := _problem(folder / KUBELET, "pods get no GPU"):
        problem, mend = (
            f"the kubelet's {folder / KUBELET}: {kubelet}",
            "start the kubelet; the plugin registers by itself",
        )
    elif told := _problem(pods, "GPUs that pods gave back stay lent"):
        problem, mend = (
            f"the kubelet's {pods}: {told}",
            f"give the plugin --pod_resources where the kubelet has it; {_SEE}",
        )
    yield Door(gives, str((answering or endpoints)[0]), problem, mend if problem else "")


def _problem(path: Path, so: str) -> str:
    """Return why nobody answers at a socket, and what follows (`so`); empty when somebody does."""
    if not path.exists():
        return f"it is not there: {so}"
    with suppress(OSError), connect(path, timeout_s=_ANSWER_S):
        return ""
    return f"nobody answers at it: {so}"
