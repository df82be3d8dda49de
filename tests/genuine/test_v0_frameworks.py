"""Our master under frameworks that subscribe by message: libmesos' scheduler driver as it was released, and pesos.

The walk is that of the recording `v0-driver-1.11.0.json`, which a genuine master was made to answer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing import MesosBox
from tests.genuine.box import PATIENT
from tests.genuine.frameworks import Framework, MakeFramework
from tests.genuine.recorded_walk import INFO, OFFERS, OUTCOMES, TASKS, task, told
from tests.genuine.releases import Release


@pytest.mark.root
def test_the_recorded_walk_with_genuine_drivers(
    mesos_box: Callable[..., MesosBox], make_framework: MakeFramework, release: Release
) -> None:
    framework, box = make_framework(release.version), mesos_box(gpus=4)
    framework.start("A", INFO, box.master)
    framework_id, master = framework.expect("A", "registered")
    assert master["pid"] == f"master@{box.master}"
    offers = framework.expect("A", "resourceOffers")
    framework.launch("A", offers, *(task(offers[0], *one) for one in TASKS))
    assert told(framework, "A", 6) == OUTCOMES
    (shown,) = box.state()["frameworks"]
    assert (shown["active"], shown["pid"].partition("@")[2].partition(":")[0]) == (True, "127.0.0.1")
    assert shown["pid"].startswith("scheduler")

    framework.reconcile("A", "long")
    assert framework.status("A")["reason"] == "REASON_RECONCILIATION"
    framework.reconcile("A")
    assert framework.status("A")["state"] == "TASK_RUNNING"
    framework.reconcile("A", "nobody")
    assert framework.status("A")["message"] == "Reconciliation: Task is unknown"
    framework.call("A", "suppressOffers")
    framework.call("A", "reviveOffers")

    framework.start("B", {**INFO, "id": framework_id}, box.master)
    assert framework.expect("A", "error", skip=OFFERS) == ["Framework failed over"]
    assert framework.expect("B", "registered")[0] == framework_id
    framework.reconcile("B")
    assert framework.status("B")["state"] == "TASK_RUNNING"
    framework.call("B", "killTask", "long")
    assert framework.status("B")["state"] == "TASK_KILLED"

    framework.call("B", "stop", True)
    framework.start("C", {**INFO, "id": framework_id}, box.master)
    assert framework.expect("C", "registered")[0] == framework_id
    framework.expect("C", "resourceOffers")
    framework.call("C", "abort")
    box.until("the framework is inactive", lambda: [f["active"] for f in box.state()["frameworks"]] == [False])
    framework.call("C", "stop")
    box.until("the framework is gone", lambda: not box.state()["frameworks"])
    framework.start("D", {**INFO, "id": framework_id}, box.master)
    assert framework.expect("D", "error") == ["Framework has been removed"]


@pytest.mark.root
def test_pesos_with_the_messages_of_drivers_before_0_23(
    mesos_box: Callable[..., MesosBox], make_framework: MakeFramework
) -> None:
    framework, box = make_framework("pesos"), mesos_box(gpus=4)
    framework.start("A", INFO, box.master)
    framework_id, _ = framework.expect("A", "registered")
    offers = framework.expect("A", "resourceOffers")
    framework.launch("A", offers, *(task(offers[0], *one) for one in TASKS))
    assert told(framework, "A", 6) == OUTCOMES
    framework.call("A", "reviveOffers")
    # It never says that it takes another's place, so it does not get it.
    framework.start("B", {**INFO, "id": framework_id}, box.master)
    assert framework.expect("B", "error") == ["Framework failed over"]
    framework.call("A", "killTask", "long")
    assert framework.status("A")["state"] == "TASK_KILLED"
    framework.call("A", "stop")
    box.until("the framework is gone", lambda: not box.state()["frameworks"])
    framework.start("D", {**INFO, "id": framework_id}, box.master)
    assert framework.expect("D", "error") == ["Framework has been removed"]


@pytest.mark.root
@pytest.mark.parametrize("kind", ["1.4.3", "1.11.0"])
def test_a_pesos_executor_under_a_genuine_driver_outlives_the_agent(
    mesos_box: Callable[..., MesosBox], make_framework: MakeFramework, pesos_command: Document, kind: str
) -> None:
    framework, box = make_framework(kind), mesos_box(gpus=4, agent_flags=PATIENT)
    framework.start("A", INFO, box.master)
    framework.expect("A", "registered")
    offers = framework.expect("A", "resourceOffers")
    framework.launch(
        "A", offers, *(task(offers[0], name, 1.0, executor=pesos_executor(pesos_command)) for name in ("one", "two"))
    )
    assert told(framework, "A", 2) == {"one": ["TASK_RUNNING"], "two": ["TASK_RUNNING"]}
    (agent,), ids = box.agents, ("echo", offers[0]["slave_id"]["value"])
    framework.call("A", "sendFrameworkMessage", *ids, base64.b64encode(b"hello").decode())
    assert answer(framework) == b"you said hello"

    agent.kill()
    agent.start()
    stdout = box.sandbox("echo") / "stdout"
    box.until("the executor is back", lambda: "reregistered" in stdout.read_text())
    agent.ready()
    framework.call("A", "killTask", "one")
    status = framework.status("A")
    assert (status["task_id"]["value"], status["state"]) == ("one", "TASK_KILLED")
    framework.call("A", "sendFrameworkMessage", *ids, base64.b64encode(b"you again").decode())
    assert answer(framework) == b"you said you again"
    assert stdout.read_text().split() == ["registered", "echo", "v0", "reregistered"]
    framework.call("A", "stop")
    box.until("the executor has ended", lambda: "shutdown" in stdout.read_text())


def pesos_executor(command: Document) -> Document:
    """Return the ExecutorInfo of a program over pesos."""
    resources = [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}}]
    resources.append({"name": "mem", "type": "SCALAR", "scalar": {"value": 64.0}})
    return {"executor_id": {"value": "echo"}, "command": command, "resources": resources}


def answer(framework: Framework) -> bytes:
    """Return what the executor says next."""
    executor_id, _, data = framework.expect("A", "frameworkMessage", skip=OFFERS)
    assert executor_id == {"value": "echo"}
    return base64.b64decode(data)
