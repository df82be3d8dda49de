from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu import nvml
from mesos_gpu.gpu.device import (
    NVIDIA_MAJOR,
    DeviceNode,
    Gpu,
    GpuDetails,
    GpuDriver,
    HealthEvent,
    Level,
    Link,
    MigInstance,
    Topology,
)
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.numbers import read_character_majors
from mesos_gpu.gpu.nvml import NvmlDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
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


PROC_DEVICES = "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n"


def nvml_driver(tmp_path: Path) -> GpuDriver:
    proc_devices = tmp_path / "devices"
    proc_devices.write_text(PROC_DEVICES)
    return NvmlDriver(FakeNvml(fake_gpus(4)), proc_devices=proc_devices, dev=tmp_path, load_uvm=lambda: None)


STRANGER = Gpu(minor=99, index=99, uuid="GPU-of-another-machine", name="Stranger")

MAKERS: dict[str, Callable[[Path], GpuDriver]] = {
    "nvml": nvml_driver,
    "simulated": lambda _: SimulatedDriver(4),
    "none": lambda _: NullDriver(),
}


@pytest.fixture(params=sorted(MAKERS))
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> GpuDriver:
    return MAKERS[request.param](tmp_path)


def test_kind_is_the_name_that_the_flag_uses(driver: GpuDriver) -> None:
    assert MAKERS[driver.kind] is not None


def test_gpus_are_listed_by_index(driver: GpuDriver) -> None:
    indices = [gpu.index for gpu in driver.gpus()]
    assert indices == sorted(set(indices))


def test_uuid_and_minor_number_name_one_gpu_each(driver: GpuDriver) -> None:
    gpus = driver.gpus()
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.minor for gpu in gpus}) == len(gpus)


def test_asking_twice_gives_the_same_answer(driver: GpuDriver) -> None:
    assert driver.gpus() == driver.gpus()
    assert driver.control_nodes() == driver.control_nodes()


def test_version_is_known_exactly_where_there_is_a_driver(driver: GpuDriver) -> None:
    assert (driver.version is None) == (driver.kind == "none")


def test_control_nodes_are_no_gpu_and_every_number_is_used_once(driver: GpuDriver) -> None:
    nodes = driver.control_nodes()
    numbers = [(node.major, node.minor) for node in nodes]
    assert len(set(numbers)) == len(numbers)
    assert not {(NVIDIA_MAJOR, gpu.minor) for gpu in driver.gpus()} & set(numbers)


def test_a_driver_has_nvidiactl_and_uvm(driver: GpuDriver) -> None:
    paths = [node.path for node in driver.control_nodes()]
    assert paths[:2] == ([] if driver.kind == "none" else ["/dev/nvidiactl", "/dev/nvidia-uvm"])


def test_no_gpu_is_in_mig_mode(driver: GpuDriver) -> None:
    assert not any(gpu.mig_enabled for gpu in driver.gpus())


def test_usage_of_every_gpu_is_known_as_far_as_its_memory(driver: GpuDriver) -> None:
    for gpu in driver.gpus():
        usage = driver.usage(gpu)
        assert usage.memory_total_mib == gpu.memory_mib
        assert usage.memory_used_mib == 0


def test_usage_of_a_gpu_that_is_not_here_is_an_error(driver: GpuDriver) -> None:
    with pytest.raises(DeviceError, match="GPU-of-another-machine"):
        driver.usage(STRANGER)


def test_details_never_fail_and_are_the_same_again(driver: GpuDriver) -> None:
    for gpu in (*driver.gpus(), STRANGER):
        assert driver.details(gpu) == driver.details(gpu)
    assert driver.details(STRANGER) == GpuDetails()


def test_topology_has_every_pair_of_gpus_and_no_other(driver: GpuDriver) -> None:
    uuids = [gpu.uuid for gpu in driver.gpus()]
    topology = driver.topology()
    assert set(topology.links) == {frozenset(pair) for pair in combinations(uuids, 2)}
    assert driver.topology() == topology


def test_gpus_are_fit_and_one_that_is_not_here_is_not(driver: GpuDriver) -> None:
    assert [driver.retest(gpu) for gpu in driver.gpus()] == [None] * len(driver.gpus())
    assert driver.retest(STRANGER) is not None


def test_healthy_gpus_are_watched_in_silence_until_that_is_ended(driver: GpuDriver) -> None:
    threads = threading.active_count()
    events: list[HealthEvent] = []
    end = driver.watch_health(events.append)
    end()
    end()
    assert events == []
    assert threading.active_count() == threads


def test_simulated_uvm_takes_a_number_that_this_kernel_does_not_use() -> None:
    uvm = SimulatedDriver(0).control_nodes()[1]
    assert uvm.major not in read_character_majors().values()
