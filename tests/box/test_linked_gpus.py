"""A box of machines whose GPUs are connected as in real ones: tasks get those that share NVLink, and see it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.box.live import LiveBox

pytestmark = pytest.mark.root
LOOK = "nvidia-smi topo -m; echo VISIBLE $NVIDIA_VISIBLE_DEVICES; echo LOOKED; exec sleep 1000"


def app(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "cmd": LOOK, "cpus": 0.1, "mem": 32, "gpus": gpus, **more}


def cards_of(box: LiveBox, name: str) -> list[Any]:
    """Return the GPUs that the tasks of an app hold."""
    found = json.loads(box.ok("gpu", "list", "-o", "json"))
    return [gpu for gpu in found if f"{name}." in str(gpu.get("task") or "")]


def test_two_gpus_are_a_linked_pair_on_the_machine_that_has_one(new_box: LiveBox) -> None:
    box = new_box
    box.up(
        "--gpu_driver=simulated", "--pool=name=plain,gpus=4,topology=pcie", "--pool=name=paired,gpus=4,topology=pairs"
    )
    on_paired = [["pool", "IS", "paired"]]
    # As many GPUs are free on either, so that links alone tell them apart.
    box.add(app("other", 1, constraints=[["pool", "IS", "plain"]]))
    box.add(app("odd", 1, constraints=on_paired))
    box.until("both run", lambda: "LOOKED" in box.log_of("odd") and "LOOKED" in box.log_of("other"))
    (odd,) = cards_of(box, "odd")
    assert (odd["index"], odd["nvlink"]) == (0, [1])
    box.add(app("pair", 2))
    box.until("it looked", lambda: "LOOKED" in box.log_of("pair"))
    pair = cards_of(box, "pair")
    assert [(gpu["index"], gpu["nvlink"], gpu["agent_id"]) for gpu in pair] == [
        (2, [3], odd["agent_id"]),
        (3, [2], odd["agent_id"]),
    ]
    (visible,) = [line for line in box.log_of("pair").splitlines() if line.startswith("VISIBLE")]
    assert set(visible.removeprefix("VISIBLE ").split(",")) == {gpu["uuid"] for gpu in pair}
    matrix = [line.split("\t") for line in box.log_of("pair").splitlines() if line.startswith("GPU")]
    assert [row[1:3] for row in matrix] == [[" X ", "NV4"], ["NV4", " X "]]

    box.add(app("single", 1, constraints=on_paired))
    box.until("it looked", lambda: "LOOKED" in box.log_of("single"))
    assert [gpu["index"] for gpu in cards_of(box, "single")] == [1], "what is broken already goes first"


def test_the_containers_of_a_pod_share_its_gpus_and_it_is_told_which(new_box: LiveBox) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--pool=name=paired,gpus=4,topology=pairs")
    box.add(app("odd", 1))
    box.until("it runs", lambda: "LOOKED" in box.log_of("odd"))
    each = {"resources": {"cpus": 0.1, "mem": 32, "gpus": 1}, "exec": {"command": {"shell": "exec sleep 1000"}}}
    pod = {"id": "/duo", "containers": [{"name": name, **each} for name in ("one", "two")]}
    assert "(GPUs 2+3 share NVLink)" in " ".join(box.cli("plan", "-", text=json.dumps(pod)).stdout.split())
    assert box.cli("pod", "add", "-", text=json.dumps(pod)).returncode == 0
    box.until("its agent has told", lambda: "GPUs 2+3 on " in box.ok("why", "duo"))
    assert "share NVLink." in " ".join(box.ok("why", "duo").split())
