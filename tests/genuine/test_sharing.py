"""A genuine master keeps account of parts of GPUs: offered, taken by two tasks, given back; what is wrong is told."""

from __future__ import annotations

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import parts
from tests.genuine.box import MakeBox
from tests.genuine.releases import Release

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
