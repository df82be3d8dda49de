"""GPUs as JSON and as Prometheus' text."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mesos_gpu.agent.model.cdi_names import asked, refusal
from mesos_gpu.agent.model.gpu_attributes import NAMES, with_gpus
from mesos_gpu.agent.model.gpu_json import GpuView, exposition, gpu_shown, view_shown
from mesos_gpu.agent.model.resources import attributes_summary, changes, parse_attributes
from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import Gpu, GpuProcess, GpuUsage
from mesos_gpu.gpu.health import Condition, Illness
from mesos_gpu.mesos.tasks import DEVICES_LABEL
from tests.support.golden import Golden

GPU = Gpu(minor=1, index=0, uuid="GPU-a", name='Some "big"\\GPU', memory_mib=16)
BUSY = GpuUsage(memory_used_mib=3, memory_total_mib=16, utilization_percent=75, power_w=250.5, temperature_c=61)
ILL = Illness(Condition.UNHEALTHY, "XID 48", 12.0, 48)


def test_what_the_driver_does_not_report_is_left_out() -> None:
    assert gpu_shown(GPU, None) == {
        "uuid": "GPU-a",
        "minor": 1,
        "index": 0,
        "name": 'Some "big"\\GPU',
        "memory_total_mib": 16,
    }
    assert gpu_shown(GPU, BUSY)["power_w"] == 250.5
    assert gpu_shown(GPU, GpuUsage(utilization_percent=0))["utilization_percent"] == 0


def test_an_ill_and_held_gpu_says_why_and_by_whom() -> None:
    shown = view_shown(GpuView(GPU, None, ILL, "c", "f", "t"))
    assert (shown["condition"], shown["reason"], shown["xid"], shown["since"]) == ("unhealthy", "XID 48", 48, 12.0)
    assert (shown["container_id"], shown["framework_id"], shown["task_id"]) == ("c", "f", "t")
    assert "container_id" not in view_shown(GpuView(GPU))


def test_the_text_has_base_units_labels_and_escapes() -> None:
    other = Gpu(minor=2, index=1, uuid="GPU-b", name="Plain")
    text = exposition([GpuView(GPU, BUSY, ILL, "c", "f", "t"), GpuView(other)], advertised=1)
    held = r'{uuid="GPU-a",minor="1",index="0",name="Some \"big\"\\GPU",framework="f",task="t",container="c"}'
    lines = text.splitlines()
    assert f"mesos_gpu_memory_used_bytes{held} 3145728" in lines
    assert f"mesos_gpu_utilization_ratio{held} 0.75" in lines
    assert f"mesos_gpu_power_watts{held} 250.5" in lines
    assert f"mesos_gpu_temperature_celsius{held} 61" in lines
    assert f"mesos_gpu_healthy{held} 0" in lines
    assert "mesos_gpu_gpus 2" in lines
    assert "mesos_gpu_gpus_advertised 1" in lines
    assert "mesos_gpu_gpus_held 1" in lines
    assert [line for line in lines if line.startswith("mesos_gpu_memory_used_bytes{") and "GPU-b" in line] == []
    for name in {line.partition("{")[0].partition(" ")[0] for line in lines if not line.startswith("#")}:
        assert len([line for line in lines if line.startswith(f"# TYPE {name} ")]) == 1
    assert text.endswith("\n")


def test_large_amounts_are_written_whole() -> None:
    usage = GpuUsage(memory_total_mib=81559)
    text = exposition([GpuView(GPU, usage)], advertised=1)
    (line,) = [line for line in text.splitlines() if line.startswith("mesos_gpu_memory_total_bytes{")]
    assert float(line.rpartition(" ")[2]) == 81559 * (1 << 20)


def test_a_lent_gpu_says_by_which_door_it_went_and_to_whom() -> None:
    view = GpuView(GPU, lease="l", door="docker", holder="web")
    shown = view_shown(view)
    assert (shown["lease_id"], shown["door"], shown["holder"]) == ("l", "docker", "web")
    assert "container_id" not in shown
    assert "mesos_gpu_gpus_lent 1" in exposition([view], advertised=0).splitlines()


def test_no_gpus_are_four_zeros() -> None:
    assert [line for line in exposition([], advertised=0).splitlines() if line[0] != "#"] == [
        "mesos_gpu_gpus 0",
        "mesos_gpu_gpus_advertised 0",
        "mesos_gpu_gpus_held 0",
        "mesos_gpu_gpus_lent 0",
    ]


def test_metrics_have_the_names_of_dcgm_exporter_too() -> None:
    lines = exposition([GpuView(GPU, BUSY, ILL, "c", "f", "t")], advertised=1, hostname="m1").splitlines()
    shown = {line.split("{")[0]: line for line in lines if line.startswith("DCGM_FI_DEV_")}
    assert {name.removeprefix("DCGM_FI_DEV_") for name in shown} >= {"GPU_UTIL", "FB_USED", "XID_ERRORS"}
    labels = shown["DCGM_FI_DEV_FB_USED"]
    assert f'UUID="{GPU.uuid}"' in labels
    assert 'Hostname="m1"' in labels
    assert 'container="c",namespace="f",pod="t"' in labels
    unknown = exposition([GpuView(GPU, None)], advertised=1)
    assert "DCGM_FI_DEV_FB_FREE" not in unknown
    assert "DCGM_FI_DEV_XID_ERRORS" in unknown


DEFAULT_COUNTERS = """
SM_CLOCK gauge, MEM_CLOCK gauge, MEMORY_TEMP gauge, GPU_TEMP gauge, POWER_USAGE gauge,
TOTAL_ENERGY_CONSUMPTION counter, PCIE_TX_THROUGHPUT counter, PCIE_RX_THROUGHPUT counter,
PCIE_REPLAY_COUNTER counter, GPU_UTIL gauge, MEM_COPY_UTIL gauge, ENC_UTIL gauge, DEC_UTIL gauge,
XID_ERRORS gauge, FB_FREE gauge, FB_USED gauge, NVLINK_BANDWIDTH_TOTAL counter, VGPU_LICENSE_STATUS gauge,
UNCORRECTABLE_REMAPPED_ROWS counter, CORRECTABLE_REMAPPED_ROWS counter, ROW_REMAP_FAILURE gauge
"""
"""Names and kinds. Source: NVIDIA/dcgm-exporter etc/default-counters.csv."""
OF_DCGM_ALONE = {"NVLINK_BANDWIDTH_TOTAL", "VGPU_LICENSE_STATUS"}


def test_every_default_counter_of_dcgm_exporter_is_there_in_its_kind_but_two_of_dcgms_own() -> None:
    numbers = {field.name: 1 for field in fields(GpuUsage) if field.name != "processes"}
    lines = exposition([GpuView(GPU, GpuUsage(**numbers))], advertised=1).splitlines()
    kinds = dict(line.removeprefix("# TYPE DCGM_FI_DEV_").split() for line in lines if "# TYPE DCGM_FI_DEV_" in line)
    listed = dict(word.split() for word in DEFAULT_COUNTERS.split(","))
    assert kinds == {name: kind for name, kind in listed.items() if name not in OF_DCGM_ALONE}


def test_everything_that_a_gpu_does_is_shown_of_it() -> None:
    usage = GpuUsage(core_mhz=1189, memory_errors=0, processes=(GpuProcess(4711, "python3", 2303),))
    shown = view_shown(GpuView(GPU, usage))
    assert (shown["core_mhz"], shown["memory_errors"]) == (1189, 0)
    assert shown["processes"] == ({"pid": 4711, "name": "python3", "memory_mib": 2303},)
    assert shown["memory_total_mib"] == 16
    assert "pci_replays" not in shown


def test_what_was_and_whose_a_process_is_are_shown_where_they_are_known() -> None:
    past = [Illness(Condition.UNHEALTHY, "fell off", 5.0, 79), Illness(Condition.HEALTHY, "an operator said so", 6.0)]
    usage = GpuUsage(processes=(GpuProcess(7, "python", 3), GpuProcess(8, "other")))
    shown = view_shown(GpuView(GPU, usage, past=past, tasks_of={7: "web.1"}))
    assert shown["history"] == [
        {"condition": "unhealthy", "reason": "fell off", "at": 5.0, "xid": 79},
        {"condition": "healthy", "reason": "an operator said so", "at": 6.0},
    ]
    assert shown["processes"] == (
        {"pid": 7, "name": "python", "memory_mib": 3, "task_id": "web.1"},
        {"pid": 8, "name": "other"},
    )
    assert view_shown(GpuView(GPU)).keys().isdisjoint({"history", "processes"})


H200 = Gpu(0, 0, "GPU-0", "NVIDIA H200", 143771)
A100 = Gpu(1, 1, "GPU-1", "NVIDIA A100-SXM4-40GB (MIG)", 40960)


def test_gpus_are_told_as_attributes() -> None:
    assert attributes_summary(with_gpus([], [H200, H200], "550.54.15")) == {
        "gpu_model": "NVIDIA-H200",
        "gpu_memory_mib": 143771.0,
        "gpu_driver": "550.54.15",
        "gpu_count": 2.0,
    }


def test_of_different_gpus_all_models_and_the_least_memory_are_told() -> None:
    told = attributes_summary(with_gpus([], [H200, A100], None))
    assert told == {
        "gpu_model": "NVIDIA-A100-SXM4-40GB-MIG/NVIDIA-H200",
        "gpu_memory_mib": 40960.0,
        "gpu_count": 2.0,
    }


def test_what_the_operator_says_stays_and_without_gpus_nothing_is_added() -> None:
    said = parse_attributes("rack:r1;gpu_model:h200")
    assert with_gpus(said, [], "1") == said
    told = attributes_summary(with_gpus(said, [H200], "1", (frozenset({0, 1}),)))
    assert told["gpu_model"] == "h200"
    assert told["gpu_nvlink"] == "0-1"
    assert set(told) == {"rack", *NAMES}


def test_what_the_operator_says_of_links_stays() -> None:
    told = attributes_summary(with_gpus(parse_attributes("gpu_nvlink:4-5"), [H200], "1", (frozenset({0, 1}),)))
    assert told["gpu_nvlink"] == "4-5"


def test_text_keeps_to_the_grammar_of_attributes() -> None:
    (model, *_) = with_gpus([], [A100], None)
    assert parse_attributes(f"gpu_model:{model['text']['value']}") == [model]


def test_another_driver_or_a_lost_gpu_is_no_other_agent() -> None:
    before = {"attributes": with_gpus(parse_attributes("rack:r1"), [H200, H200], "550")}
    now = {"attributes": with_gpus(parse_attributes("rack:r1"), [H200], "560")}
    assert changes(before, now) == []
    assert changes({"attributes": []}, now), "the rack is still compared"


NIC = "example.com/nic"


def labelled(value: str) -> dict[str, object]:
    return {"labels": {"labels": [{"key": "other"}, {"key": DEVICES_LABEL, "value": value}]}}


def test_names_are_those_of_all_labels_each_once(golden: Golden) -> None:
    both = [labelled(f"{NIC}=0, {NIC}=1"), {}, labelled(f"{NIC}=1 a.b/c=x")]
    assert asked(both) == (f"{NIC}=0", f"{NIC}=1", "a.b/c=x")
    assert asked([{"labels": {"labels": [{"key": DEVICES_LABEL}]}}]) == ()
    with pytest.raises(BadInput) as refused:
        asked([labelled("nic")])
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("value", "kinds", "running"),
    [(f"{NIC}=0", (NIC,), False), (f"{NIC}=0", ("all",), False), ("", (), True)],
)
def test_devices_of_the_kinds_that_an_agent_gives_are_accepted(
    value: str, kinds: tuple[str, ...], running: bool
) -> None:
    assert refusal(labelled(value), kinds, running=running) is None


@pytest.mark.parametrize(
    ("value", "kinds", "running"),
    [
        (f"{NIC}=0", (), False),
        (f"{NIC}=0", ("a.b/c", "a.b/a"), False),
        (f"{NIC}=0", (NIC,), True),
        ("nvidia.com/gpu=all", ("all",), False),
        ("nic", ("all",), False),
    ],
    ids=["none", "others", "running", "gpu", "no name"],
)
def test_devices_that_an_agent_does_not_give_are_refused(
    value: str, kinds: tuple[str, ...], running: bool, golden: Golden
) -> None:
    assert refusal(labelled(value), kinds, running=running) == golden
