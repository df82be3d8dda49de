"""Our leading master dies under a framework over libmesos' driver, which finds the next one by ZooKeeper."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.mesos.resource import Document
from tests.genuine.frameworks import Framework, MakeFramework
from tests.genuine.services import Service, services, until
from tests.support.zookeeper import RealZooKeeper

__all__ = ["services"]
pytestmark = pytest.mark.root

SECRETS = "framework very-secret\n"
OFFERS = ("resourceOffers", "offerRescinded")


def test_drivers_find_the_next_master_and_lose_nothing(
    tmp_path: Path, zookeeper: RealZooKeeper, services: Callable[..., Service], make_framework: MakeFramework
) -> None:
    url = zookeeper.url("v0/mesos")
    secrets = tmp_path / "credentials"
    secrets.write_text(SECRETS)
    secrets.chmod(0o600)
    flags = (f"--zk={url}", "--zk_session_timeout=2secs", f"--credentials={secrets}", "--authenticate_frameworks")
    first, second = (
        services(n, "mesos_gpu.master.service", f"--work_dir={tmp_path / n}/work", *flags) for n in ("m1", "m2")
    )
    services(
        "agent",
        "mesos_gpu.agent.service",
        f"--master={url}",
        f"--work_dir={tmp_path / 'agent' / 'work'}",
        "--gpu_driver=simulated",
        "--simulated_gpus=4",
        "--resources=mem:4096;disk:1024",
        f"--cgroups_root=mesos-test-{uuid.uuid4().hex[:12]}",
    )
    orphaned = tmp_path / "orphaned"
    frameworks = [make_framework(version) for version in ("1.4.3", "1.11.0")]
    ids = [_begin(framework, first, url, orphaned) for framework in frameworks]
    first.end(signal.SIGKILL)
    orphaned.touch()  # tasks end while there is no master to tell
    for framework, framework_id in zip(frameworks, ids, strict=True):
        _end(framework, second, framework_id)


def _begin(framework: Framework, master: Service, url: str, orphaned: Path) -> Document:
    """Run two tasks, one of which ends when that file is there; return the framework's id."""
    capabilities = [{"type": "GPU_RESOURCES"}]
    info = {"user": "root", "name": "v0", "failover_timeout": 60.0, "checkpoint": True, "capabilities": capabilities}
    framework.start("eve", info, url, {"principal": "framework", "secret": "guessed"})
    assert framework.expect("eve", "error") == ["Master refused authentication"]
    framework.start("A", info, url, {"principal": "framework", "secret": "very-secret"})
    framework_id, leader = framework.expect("A", "registered")
    assert leader["pid"] == "master@" + master.url.removeprefix("http://")
    (offer,) = framework.expect("A", "resourceOffers")
    resources = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in (("cpus", 0.1), ("gpus", 1.0))]
    lines = {"long": "exec sleep 1000", "brief": f"until [ -e {orphaned} ]; do sleep 0.05; done"}
    tasks = [{"name": name, "task_id": {"value": name}, "command": {"value": line}} for name, line in lines.items()]
    framework.launch("A", [offer], *({**t, "slave_id": offer["slave_id"], "resources": resources} for t in tasks))
    states = [(s["task_id"]["value"], s["state"]) for s in (framework.status("A") for _ in range(4))]
    assert sorted(states) == [
        (name, state) for name in ("brief", "long") for state in ("TASK_RUNNING", "TASK_STARTING")
    ]
    principals = {known["id"]: known["principal"] for known in master.state()["frameworks"]}
    assert principals[framework_id["value"]] == "framework"
    framework.call("A", "suppressOffers")
    return framework_id  # type: ignore[no-any-return]


def _end(framework: Framework, master: Service, framework_id: Document) -> None:
    framework.expect("A", "disconnected", skip=OFFERS)
    # The next master has heard of this framework from nobody, or from its agent alone: "registered" is what it says.
    again, leader = framework.expect("A", "registered")
    assert again == framework_id
    assert leader["pid"] == "master@" + master.url.removeprefix("http://")
    until(lambda: [s["active"] for s in master.state()["slaves"]] == [True], master.log)
    assert told(framework, "TASK_FINISHED") == "brief"
    framework.reconcile("A")
    assert told(framework, "TASK_RUNNING", "REASON_RECONCILIATION") == "long"
    framework.call("A", "killTask", "long")
    assert told(framework, "TASK_KILLED") == "long"
    framework.call("A", "stop")
    until(lambda: framework_id["value"] not in [f["id"] for f in master.state()["frameworks"]], master.log)


def told(framework: Framework, state: str, reason: str | None = None) -> str:
    """Return the task whose state is told next, for a reason if one is named.

    An update that was delivered before comes again if its acknowledgement was lost with the master, or takes longer
    than the 10 s after which an agent sends it again.
    """
    while True:
        status = framework.status("A")
        if status["state"] == state and reason in (None, status.get("reason")):
            return str(status["task_id"]["value"])
        assert status["state"] in ("TASK_RUNNING", "TASK_FINISHED"), status
