"""docs/do/real-cluster.md, "A GPU machine changes its agent, one at a time", walked with the words that stand there.

Master and framework driver are genuine ones of Mesos 1.11. The agent that is replaced is ours, too, as no package has a
genuine one: to the master it is an agent like any other.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from mesos_gpu.mesos.resource import Document
from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.frameworks import Framework, MakeFramework
from tests.genuine.recorded_walk import INFO, OFFERS, task, told
from tests.genuine.releases import Release
from tests.genuine.services import Service, services
from tests.support.zookeeper import RealZooKeeper

__all__ = ["services"]
pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

PAGE = (Path(__file__).parents[2] / "docs" / "do" / "real-cluster.md").read_text(encoding="utf-8")
RUNS = ["TASK_STARTING", "TASK_RUNNING"]


def page_drain(agent_id: str) -> Document:
    """The body of the page's call of DRAIN_AGENT, for this agent."""
    found = re.search(r"curl -X POST http://MASTER:5050/api/v1 .*? -d '(.*?)'", PAGE, re.S)
    assert found, "the page has lost its call"
    return json.loads(found[1].replace("AGENT_ID", agent_id))  # type: ignore[no-any-return]


def page_flags(**here: str) -> list[str]:
    """The flags of the page's unit, with what differs on this machine in the place of what stands there."""
    found = re.search(r"ExecStart=\S+/mesos-gpu-agent ((?:.*\\\n)*.*)", PAGE)
    assert found, "the page has lost its unit"
    flags = dict(word.removeprefix("--").partition("=")[::2] for word in shlex.split(found[1].replace("\\\n", " ")))
    assert set(here) <= set(flags), "the page gives these flags"
    return [f"--{flag}={value}" if value else f"--{flag}" for flag, value in {**flags, **here}.items()]


def drain(box: GenuineBox, driver: Framework, agent_id: str, task_id: str) -> None:
    """Drain an agent as the page says, until its task is elsewhere and it is drained."""
    answer = requests.post(f"{box.url}/api/v1", json=page_drain(agent_id), timeout=60)
    assert answer.ok, answer.text
    status = driver.status("A")
    assert (status["task_id"]["value"], status["state"]) == (task_id, "TASK_KILLED")

    def state() -> str | None:
        info = {slave["id"]: slave for slave in box.state()["slaves"]}[agent_id].get("drain_info")
        return info and info["state"]  # type: ignore[no-any-return]

    box.until("it is drained", lambda: state() == "DRAINED")


def start_on(driver: Framework, agent_id: str, task_id: str) -> None:
    """Start a task with a GPU on an agent."""
    offers: list[Document] = []
    while [offer["slave_id"]["value"] for offer in offers] != [agent_id]:
        offers = driver.expect("A", "resourceOffers", skip=OFFERS)
    driver.launch("A", offers, task(offers[0], task_id, 1.0, "exec sleep 1000"))
    assert told(driver, "A", 2) == {task_id: RUNS}


def test_an_agent_is_replaced_and_back_as_the_page_says(
    newest: Release,
    make_box: MakeBox,
    make_framework: MakeFramework,
    services: Callable[..., Service],
    zookeeper: RealZooKeeper,
    tmp_path: Path,
) -> None:
    box, driver = make_box(newest, gpus=2), make_framework(newest.version)
    (old,) = box.agents
    driver.start("A", INFO, box.genuine.address)
    driver.expect("A", "registered")
    start_on(driver, old.id, "one")

    drain(box, driver, old.id, "one")  # 2
    old.leave()  # 3
    assert driver.expect("A", "slaveLost", skip=OFFERS) == [{"value": old.id}], "at once, not after 75 s"
    assert box.state()["slaves"] == []
    with box.in_zookeeper(zookeeper) as masters:
        new_work = tmp_path / "mesos-gpu-agent"
        new = services(  # 4
            "agent",
            "mesos_gpu.agent.service",
            *page_flags(master=masters, ip="127.0.0.1", work_dir=str(new_work)),
            *("--gpu_driver=simulated", "--simulated_gpus=4", f"--cgroups_root=mesos-test-{uuid.uuid4().hex[:12]}"),
        )

        def slaves() -> list[Document]:
            return requests.get(f"{box.url}/slaves", timeout=60).json()["slaves"]  # type: ignore[no-any-return]

        box.until("it is there with its GPUs", lambda: [s["resources"]["gpus"] for s in slaves()] == [4])  # 5
        (shown,) = slaves()
        assert shown["id"] != old.id
        start_on(driver, shown["id"], "two")  # 6
        drain(box, driver, shown["id"], "two")  # and back
        new.end(signal.SIGUSR1)
    assert driver.expect("A", "slaveLost", skip=OFFERS) == [{"value": shown["id"]}]
    old.start()
    start_on(driver, old.id, "three")
    driver.call("A", "stop")
    box.until("the framework is gone", lambda: not box.state()["frameworks"])
