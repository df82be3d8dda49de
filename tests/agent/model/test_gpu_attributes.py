"""GPUs as attributes of the agent."""

from __future__ import annotations

from mesos_gpu.agent.model.gpu_attributes import NAMES, with_gpus
from mesos_gpu.agent.model.resources import attributes_summary, changes, parse_attributes
from mesos_gpu.gpu.device import Gpu

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
