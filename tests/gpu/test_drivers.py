from __future__ import annotations

import pytest

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu import nvml
from mesos_gpu.gpu.device import DeviceNode, Gpu, Level, Link, MigInstance, Topology
from mesos_gpu.gpu.drivers import open_driver
from tests.fakes.nvml import LIBRARY_NOT_FOUND, FakeNvml, fake_gpus
from tests.support.golden import Golden


def use(monkeypatch: pytest.MonkeyPatch, binding: FakeNvml) -> None:
    monkeypatch.setattr(nvml.NvmlDriver.__init__, "__defaults__", (binding,))
    monkeypatch.setattr(nvml.find_nvml, "__defaults__", (binding,))


def test_none_has_no_gpus() -> None:
    driver = open_driver("none")
    assert (driver.kind, list(driver.gpus())) == ("none", [])


def test_simulated_has_as_many_as_asked() -> None:
    assert len(open_driver("simulated").gpus()) == 4
    assert len(open_driver("simulated", simulated_gpus=2).gpus()) == 2


def test_auto_is_nvml_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(fake_gpus(2)))
    driver = open_driver("auto")
    assert (driver.kind, len(driver.gpus())) == ("nvml", 2)


def test_auto_is_none_where_nvml_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeNvml(init_error=LIBRARY_NOT_FOUND))
    assert open_driver("auto").kind == "none"


def test_nvml_by_name_is_an_error_where_it_does_not_answer(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    use(monkeypatch, FakeNvml(init_error=LIBRARY_NOT_FOUND))
    with pytest.raises(DeviceError) as refused:
        open_driver("nvml")
    assert str(refused.value) == golden


def test_another_kind_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(BadFlag, match=r"auto, nvml, simulated, none, not 'cuda'"):
        open_driver("cuda")


def test_another_mig_strategy_is_refused_with_the_ones_there_are(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        open_driver("none", mig_strategy="mixed")
    assert str(refused.value) == golden


@pytest.mark.parametrize("strategy", ["none", "single"])
def test_mig_strategy_reaches_the_driver(
    strategy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    gpus = fake_gpus(1)
    gpus[0].mig = (1, 1)
    use(monkeypatch, FakeNvml(gpus))
    for kind in ("nvml", "auto"):
        assert list(open_driver(kind, mig_strategy=strategy).gpus()) == []
    assert caplog.messages == golden


def whole(minor: int, uuid: str = "GPU-x") -> Gpu:
    return Gpu(minor=minor, index=minor, uuid=uuid, name="H200")


def part(minor: int, gpu_instance: int, compute_instance: int, uuid: str) -> Gpu:
    node = DeviceNode(f"/dev/nvidia-caps/nvidia-cap{gpu_instance}", 238, gpu_instance)
    return Gpu(minor, minor, uuid, "part", mig=MigInstance(f"GPU-{minor}", gpu_instance, compute_instance, (node,)))


def test_gpus_are_ordered_by_minor_then_by_instance() -> None:
    ordered = [
        whole(0),
        part(1, 7, 0, "MIG-b"),
        part(1, 7, 1, "MIG-a"),
        part(1, 9, 0, "MIG-0"),
        whole(2, "GPU-a"),
        whole(2, "GPU-b"),
    ]
    assert sorted(reversed(ordered)) == ordered
    assert max(ordered) >= min(ordered)


def test_fields_that_are_not_known_do_not_disturb_the_order() -> None:
    known = Gpu(0, 0, "GPU-x", "H200", memory_mib=1, bus_id="00000000:01:00.0")
    assert not known < whole(0)
    assert not whole(0) < known


def test_pair_that_is_not_known_is_far_apart_and_instances_of_a_gpu_share_a_board() -> None:
    topology = Topology({frozenset(("GPU-1", "GPU-2")): Link(Level.SINGLE_SWITCH, 2)})
    first, second, other = part(1, 7, 0, "MIG-a"), part(1, 9, 0, "MIG-b"), part(2, 7, 0, "MIG-c")
    assert topology.between(first, second) == Link(Level.SAME_BOARD, 0)
    assert topology.between(first, other) == topology.between(other, first) == Link(Level.SINGLE_SWITCH, 2)
    assert topology.between(first, whole(3)) == Link(Level.SYSTEM, 0)
