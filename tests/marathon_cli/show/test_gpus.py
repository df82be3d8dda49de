"""One line for each GPU of a cluster, and the kinds of GPUs."""

from __future__ import annotations

import json
from typing import Any

from marathon_cli.commands.agent import description, lines_of
from marathon_cli.show.gpus import GpuLine, busiest, by_agent, gpu_lines, gpu_types, group_of, model_constraint
from mesos_gpu.mesos.clients.agents import read_agent, tasks_in
from tests.support.golden import Golden
from tests.support.places import RECORDED


def agent(number: int = 0, gpus: int = 2, **attributes: Any) -> Any:
    return read_agent(
        {
            "id": f"A-S{number}",
            "hostname": f"gpu{number}",
            "pid": f"slave(1)@10.0.0.{number}:5051",
            "attributes": attributes,
            "resources": {"cpus": 8, "gpus": gpus, "mem": 16384, "disk": 50000},
            "used_resources": {"cpus": 8, "gpus": 1, "mem": 1024, "disk": 0},
        }
    )


def gpu(index: int, **more: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}", "index": index, "name": "NVIDIA H200", "condition": "healthy", **more}


def test_a_line_has_who_holds_the_gpu_and_how_it_is() -> None:
    shown = [gpu(1), gpu(0, task_id="train.1", memory_total_mib=143771, condition="unhealthy", reason="XID 79")]
    held, free = gpu_lines(agent(gpu_driver="550.54"), "gpu0", shown, (), {"train.1": "/train"})
    assert (held.index, held.holder, held.condition, held.reason) == (0, "/train", "unhealthy", "XID 79")
    assert (held.memory_mib, held.driver) == (143771, "550.54")
    assert (free.index, free.holder, free.held) == (1, "---", False)
    assert "memory_used_mib" not in free.document()


def test_a_line_has_the_gpus_with_which_it_shares_nvlink() -> None:
    lines = gpu_lines(agent(gpu_nvlink="0-1-2-3/4-5-6-7/0-4"), "gpu0", [gpu(index) for index in (0, 3, 4, 8)])
    assert [line.nvlink for line in lines] == [(1, 2, 3, 4), (0, 1, 2), (0, 5, 6, 7), ()]
    assert lines[0].document()["nvlink"] == (1, 2, 3, 4)
    assert "nvlink" not in lines[3].document()
    assert gpu_lines(agent(), "gpu0", [gpu(0)])[0].nvlink == ()


def test_a_holder_that_is_not_marathons_is_named_by_its_framework_or_container(golden: Golden) -> None:
    tasks = [{"id": "job.1", "framework_name": "spark"}]
    spark, nobody = gpu_lines(agent(), "gpu0", [gpu(0, task_id="job.1"), gpu(1, container_id="c9")], tasks)
    assert spark.holder == "spark"
    assert nobody.holder == golden


def test_an_agent_of_mesos_own_tells_how_many_and_for_whom_but_not_which() -> None:
    tasks = [{"id": "train.1", "framework_name": "marathon", "resources": {"gpus": 1}}]
    held, free = gpu_lines(agent(gpu_model="A100", gpu_memory_mib=40960.0), "gpu0", None, tasks, {"train.1": "/train"})
    assert (held.holder, held.index, held.uuid, held.condition) == ("/train", None, None, "unknown")
    assert (free.held, free.model, free.memory_mib) == (False, "A100", 40960)


def test_gpus_are_told_by_index_and_mig_instances_which_share_one_by_uuid() -> None:
    lines = [GpuLine("b", "B", 1, "GPU-1"), GpuLine("a", "A", 0, "MIG-1"), GpuLine("a", "A", 0, "MIG-2")]
    assert by_agent(lines) == "MIG-1,MIG-2@a 1@b"


def test_kinds_are_listed_by_model_and_zone_with_how_to_ask_for_them() -> None:
    one, two, other = agent(1, gpu_model="NVIDIA-H200"), agent(2, gpu_model="NVIDIA-H200"), agent(3)
    lines = [
        *gpu_lines(one, "gpu1", [gpu(0), gpu(1, task_id="t")]),
        *gpu_lines(two, "gpu2", [gpu(0, condition="unhealthy")]),
        *gpu_lines(other, "gpu3", [gpu(0, name="Tesla K80", memory_total_mib=11441)]),
    ]
    h200, k80 = gpu_types([one, two, other], lines)
    assert (h200.name, h200.zone, h200.description) == ("nvidia-h200", "-", "NVIDIA H200")
    assert (h200.gpus, h200.free, h200.agents, h200.most_per_agent) == (3, 1, 2, 2)
    assert h200.constraint == ("gpu_model", "IS", "NVIDIA-H200")
    assert (k80.name, k80.memory_mib, k80.constraint) == ("tesla-k80", 11441, None)
    assert h200.document()["maximumCardsPerInstance"] == 2


def test_agents_with_several_kinds_cannot_be_asked_for_one() -> None:
    mixed = agent(1, gpu_model="A100/H200")
    kinds = gpu_types([mixed], gpu_lines(mixed, "m", [gpu(0, name="A100"), gpu(1, name="H200")]))
    assert [(kind.name, kind.constraint) for kind in kinds] == [("a100", None), ("h200", None)]


def test_a_model_that_is_cannot_say_is_asked_for_as_an_expression() -> None:
    assert model_constraint("H200 (SXM)") == ("gpu_model", "LIKE", r"H200\ \(SXM\)")


def test_the_busiest_gpu_comes_first_and_one_that_tells_nothing_last() -> None:
    lines = [
        GpuLine("a", "A", 0, utilization_percent=None),
        GpuLine("a", "A", 1, utilization_percent=5),
        GpuLine("a", "A", 2, utilization_percent=90),
        GpuLine("a", "A", 3, utilization_percent=5, memory_used_mib=100),
    ]
    assert [line.index for line in busiest(lines)] == [2, 3, 1, 0]


def test_an_agent_is_described_with_what_tasks_have_of_it(golden: Golden) -> None:
    one = agent(0, gpus=2, gpu_model="H200")
    tasks = [{"id": "train.1", "state": "TASK_RUNNING", "resources": {"cpus": 2, "gpus": 1, "mem": 4096}}]
    apps = {"train.1": "/train"}
    lines = gpu_lines(one, "gpu0", [gpu(0, task_id="train.1"), gpu(1), gpu(2, condition="unhealthy", reason="XID 79")])
    machine = {"system/cpus_total": 16.0, "system/mem_total_bytes": float(32 << 30)}
    found = description(one, "gpu0", lines, tasks, machine, apps, now_s=0)
    assert found["capacity"] == {"cpus": 16, "gpus": 3, "mem": 32768, "disk": 50000}
    assert found["allocatable"] == {"cpus": 8, "gpus": 2, "mem": 16384, "disk": 50000}
    assert found["allocated"]["gpus"] == 1
    (task,) = found["tasks"]
    assert task["share"] == {"cpus": 0.25, "gpus": 0.5, "mem": 0.25, "disk": 0}
    assert task["gpu_devices"] == [{"index": 0, "uuid": "GPU-0"}]
    assert found["warnings"] == golden
    text = "\n".join(lines_of(found, width=None))
    for words in ("gpu_model=H200", "1 (50%)", "4096 MiB (25%)", "XID 79", "/train"):
        assert words in text


def test_an_agent_that_tells_nothing_of_its_machine_has_what_it_offers(golden: Golden) -> None:
    found = description(agent(), "gpu0", [], [], {}, {}, now_s=0)
    assert found["capacity"] == found["allocatable"]
    assert lines_of(found, width=80)[-1] == golden


def test_the_tasks_of_a_pod_share_their_gpus_and_are_known_by_their_id() -> None:
    instance = "g_pod.instance-b542c191-f9e2-590e-b054-babe826202d7"
    first, second = f"{instance}.one.1", f"{instance}.two.1"
    lines = gpu_lines(agent(), "gpu0", [gpu(0, task_id=second), gpu(1, task_id=second)])
    assert {line.app for line in lines} == {"/g/pod"}
    assert group_of(first) == group_of(second) != group_of("spark.1")
    tasks = [{"id": name, "resources": {"gpus": 1}} for name in (first, second)]
    found = description(agent(), "gpu0", lines, tasks, {}, {}, now_s=0)
    assert [task["devices"] for task in found["tasks"]] == ["0,1", "0,1"]


def test_tasks_on_a_real_agent_of_mesos_are_counted() -> None:
    answers = json.loads((RECORDED / "agent-get-running.json").read_text())
    state = next(a["response"]["body"] for a in answers if a["request"]["path"] == "/state")
    lines = gpu_lines(agent(0, gpus=4), "gpu0", None, tasks_in(state))
    assert sum(line.held for line in lines) == 1
    assert len(lines) == 4
