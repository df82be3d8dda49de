"""A genuine master keeps account of parts of GPUs: offered, taken by two tasks, given back; what is wrong is told."""

from __future__ import annotations

import sys

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import parts
from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.support.simulated.played import PROGRAM

pytestmark = pytest.mark.root


def total(box_state: Document, what: str) -> dict[int, tuple[int, int]]:
    """Return the GiB and slices of each card among the resources that the one agent has, uses, ..."""
    (agent,) = box_state["slaves"]
    text = ";".join(f"{name}:{agent[what][name]}" for name in ("gpu_mem", "gpu_slices") if agent[what].get(name))
    return {part.card: (part.mem_units, part.weight) for part in parts(Resources.parse(text))}


def test_parts_of_a_card_are_offered_taken_and_given_back(newest: Release, make_box: MakeBox) -> None:
    box = make_box(newest, gpus=2, marathon=True, agent_flags={"shared_gpus": "1"})
    whole = total(box.state(), "resources")
    assert list(whole) == [1]
    assert box.state()["slaves"][0]["resources"]["gpus"] == 1
    app = {"cmd": "exec sleep 600", "cpus": 0.1, "mem": 32}
    box.run_app({**app, "id": "/one", "gpuShare": {"memGiB": 6, "weight": 2}})
    box.run_app({**app, "id": "/two", "env": {"ALIYUN_COM_GPU_MEM_CONTAINER": "7"}})
    assert total(box.state(), "used_resources") == {1: (13, 3)}
    box.marathon("DELETE", "/v2/apps//one")
    box.until("its part is free", lambda: total(box.state(), "used_resources") == {1: (7, 1)})


def test_a_suspended_part_is_offered_by_other_units_and_no_card_is_given_twice(
    newest: Release, make_box: MakeBox
) -> None:
    box = make_box(newest, gpus=2, marathon=True, agent_flags={"shared_gpus": "1"})
    (gib, _) = total(box.state(), "resources")[1]
    app = {"cmd": f"exec {sys.executable} -S {PROGRAM} 3000 1000", "cpus": 0.1, "mem": 32}
    box.run_app({**app, "id": "/patient", "preemptible": True, "gpuShare": {"memGiB": gib - 4}})
    box.run_app({**app, "id": "/urgent", "gpuShare": {"memGiB": gib - 2, "highPriority": True}})
    assert total(box.state(), "used_resources")[1][0] == 2 * gib - 6
    box.until("as much is offered as nobody has", lambda: total(box.state(), "resources")[1][0] == 2 * gib - 4)
    box.marathon("DELETE", "/v2/apps//urgent")
    box.until("the first has its part again", lambda: total(box.state(), "resources")[1][0] == gib)
    assert total(box.state(), "used_resources")[1][0] == gib - 4
