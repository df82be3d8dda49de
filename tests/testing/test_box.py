"""Boxes of real services and what can befall them, seen by a framework on pymesos."""

from __future__ import annotations

import os
import select
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import BadInput, Conflict, NotFound, Unavailable
from mesos_gpu.framework import GpuTask
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.testing import BoxFactory, MesosBox
from mesos_gpu.testing.factory import Home
from tests.support.box.live import leftovers
from tests.support.golden import Golden
from tests.support.images.build import busybox_image, save_archive
from tests.support.player import PATIENCE_S, playing

pytestmark = pytest.mark.root

RUNS_ON = "exec sleep 1000"


def gpus(box: MesosBox) -> list[int]:
    """GPUs per agent as the master has them, by the agents' order in the box."""
    known = {agent["id"]: int(agent["resources"]["gpus"]) for agent in box.state()["slaves"] if agent["active"]}
    return [known.get(agent.id, -1) for agent in box.agents]


def attributes(box: MesosBox) -> list[dict[str, Any]]:
    known = {agent["id"]: agent["attributes"] for agent in box.state()["slaves"]}
    return [known[agent.id] for agent in box.agents]


def test_a_box_has_what_was_asked_for(mesos_box: BoxFactory) -> None:
    box = mesos_box(
        gpus=[0, 3],
        attributes=[{"rack": "r1"}, {"rack": "r2", "gpu_model": "NVIDIA-H200"}],
        resources="cpus:2;mem:512;disk:1024;ports:[40000-40009]",
        ill_gpus=[{}, {1: 79}],
    )
    box.until("the ill GPU is withdrawn", lambda: gpus(box) == [0, 2])
    first, second = attributes(box)
    assert first == {"rack": "r1"}
    assert (second["rack"], second["gpu_model"]) == ("r2", "NVIDIA-H200")
    (agent, _) = box.state()["slaves"]
    assert (agent["resources"]["cpus"], agent["resources"]["ports"]) == (2.0, "[40000-40009]")
    with playing(box) as player:
        told = player.next("offer", lambda offer: offer.gpus == 2)
        assert (told.gpu_model, told.gpu_memory_mib, told.cpus) == ("NVIDIA-H200", 16384, 2.0)
    box.down()
    box.down()
    assert leftovers(box.work_dir) == []


def test_a_gpu_that_falls_ill_is_offered_again_when_it_was_healed(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=2, agent_flags={"gpu_unhealthy_action": "kill"})
    (agent,) = box.agents
    with playing(box) as player:
        player.launch(GpuTask("holder", RUNS_ON, gpus=2))
        player.status("TASK_RUNNING")
        agent.break_gpu(1, xid=48)
        assert "XID 48" in player.status("TASK_FAILED")["message"]
        assert player.next("offer", lambda offer: offer.gpus > 0).gpus == 1
        agent.heal_gpu(1)
        player.next("offer", lambda offer: offer.gpus == 2)
    with pytest.raises(NotFound):
        agent.break_gpu(2)


def test_a_task_outlives_its_agent_and_its_master(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=1)
    (agent,) = box.agents
    with playing(box) as player:
        player.launch(GpuTask("lives", RUNS_ON))
        player.status("TASK_RUNNING")
        before = box.state()["id"]
        with pytest.raises(Conflict):
            agent.start()
        agent.kill()
        agent.start()
        box.fail_over()
        player.next("reregistered")
        assert box.state()["id"] != before
        box.until("the task is known again", lambda: [t["id"] for f in box.state()["frameworks"] for t in f["tasks"]])
        player.driver.killTask({"value": "lives"})
        player.status("TASK_KILLED")
        agent.stop()
        agent.start().leave()
        box.until("nobody is left", lambda: not box.state()["slaves"])


def test_an_agent_that_cannot_be_reached_comes_back_with_its_tasks(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=1, master_flags={"agent_ping_timeout": "500ms", "max_agent_ping_timeouts": 3})
    (agent,) = box.agents
    with playing(box, capabilities=["PARTITION_AWARE"]) as player:
        player.launch(GpuTask("far", RUNS_ON))
        player.status("TASK_RUNNING")
        agent.partition()
        assert player.status("TASK_UNREACHABLE")["reason"] == "REASON_AGENT_REMOVED"
        agent.rejoin()
        player.status("TASK_RUNNING")


def test_tasks_of_killed_and_halted_agents_end_with_the_box(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=1, agents=2)
    with playing(box, failover_timeout_s=1000) as player:
        for n in range(2):
            player.launch(GpuTask(f"stays-{n}", RUNS_ON))
            player.status("TASK_RUNNING", f"stays-{n}")
        sandboxes = [
            len(list(agent.work_dir.glob("slaves/*/frameworks/*/executors/*/runs/*-*"))) for agent in box.agents
        ]
        assert sandboxes == [1, 1]
        box.agents[0].kill()
        box.agents[1].partition()
        box.kill_master()
        box.down()
    assert leftovers(box.work_dir) == []


def test_services_and_tasks_end_when_the_process_that_they_come_from_is_killed(tmp_path: Path) -> None:
    home = Home(tmp_path / "boxes")
    box = BoxFactory(home)(gpus=1)
    (agent,) = box.agents
    with playing(box) as player:
        player.launch(GpuTask("stays", RUNS_ON))
        player.status("TASK_RUNNING")
        ended = os.pidfd_open(agent.pid)
        os.kill(box._fork_server.pid, signal.SIGKILL)
        assert select.select([ended], [], [], PATIENCE_S)[0]
        os.close(ended)
    with pytest.raises(Unavailable, match=r"fork-server\.log"):
        box.down()
    home.close()
    folder = runtime_dir(box.work_dir)
    assert leftovers(box.work_dir) == [f"directory: {folder}"]
    shutil.rmtree(folder)


def test_marathon_and_images_come_on_request(mesos_box: BoxFactory, tmp_path: Path) -> None:
    save_archive(tmp_path / "tool:1.tar", busybox_image())
    box = mesos_box(gpus=1, docker_registry=tmp_path, marathon=True)
    assert box.marathon_url is not None
    assert [framework["name"] for framework in box.state()["frameworks"]] == ["marathon"]
    with playing(box) as player:
        player.launch(GpuTask("inside", "test -x /bin/busybox && test ! -e /usr/bin/python3", image="tool:1"))
        player.status("TASK_FINISHED")


def test_a_service_that_does_not_come_up_says_why_and_nothing_stays(mesos_box: BoxFactory) -> None:
    with pytest.raises(Unavailable, match=r"agent1\b.*--gpu_unhealthy_action"):
        mesos_box(agent_flags={"gpu_unhealthy_action": "dance"})
    assert mesos_box.boxes == []
    assert mesos_box(agents=0).agents == (), "the next one comes up"


@pytest.mark.parametrize(
    "wishes",
    [
        {"gpus": 0.5},
        {"gpus": [1, 2], "agents": 3},
        {"agents": -1},
        {"ill_gpus": {4: 79}},
        {"attributes": {"a;b": "c"}},
    ],
    ids=lambda wishes: "-".join(wishes),
)
def test_what_no_box_can_be_is_refused_before_anything_starts(
    mesos_box: BoxFactory, wishes: dict[str, Any], golden: Golden
) -> None:
    with pytest.raises(BadInput) as refused:
        mesos_box(**wishes)
    assert str(refused.value) == golden
    assert mesos_box.boxes == []
