"""The driver of this machine, where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from mesos_gpu.gpu.device import HealthEvent
from mesos_gpu.gpu.nvml import NvmlDriver
from mesos_gpu.gpu.topology import best

pytestmark = pytest.mark.gpu


@pytest.fixture
def driver() -> Iterator[NvmlDriver]:
    driver = NvmlDriver(mig_instances=True)
    yield driver
    driver.close()


def test_gpus_have_names_numbers_and_memory(driver: NvmlDriver) -> None:
    gpus = driver.gpus()
    assert gpus
    for gpu in gpus:
        assert gpu.uuid.startswith(("GPU-", "MIG-"))
        assert gpu.memory_mib is None or gpu.memory_mib > 0
        assert (gpu.mig is not None) == bool(gpu.mig_enabled)
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)


def test_control_nodes_are_the_kernels(driver: NvmlDriver) -> None:
    assert [node.path for node in driver.control_nodes()][:2] == ["/dev/nvidiactl", "/dev/nvidia-uvm"]


def test_usage_is_within_bounds(driver: NvmlDriver) -> None:
    for gpu in driver.gpus():
        usage = driver.usage(gpu)
        if usage.memory_used_mib is not None:
            assert usage.memory_total_mib == gpu.memory_mib
            assert 0 <= usage.memory_used_mib <= usage.memory_total_mib
        assert usage.utilization_percent is None or 0 <= usage.utilization_percent <= 100
        assert usage.power_w is None or 0 < usage.power_w < 5000
        assert usage.temperature_c is None or 0 < usage.temperature_c < 120


def test_topology_has_every_pair_and_all_gpus_can_be_chosen(driver: NvmlDriver) -> None:
    gpus, topology = driver.gpus(), driver.topology()
    boards = {gpu.uuid if gpu.mig is None else gpu.mig.parent_uuid for gpu in gpus}
    assert {frozenset(pair) for pair in combinations(boards, 2)} <= set(topology.links)
    assert best(gpus, len(gpus), topology) == set(gpus)


def test_gpus_pass_the_retest(driver: NvmlDriver) -> None:
    assert {gpu.uuid: driver.retest(gpu) for gpu in driver.gpus()} == {gpu.uuid: None for gpu in driver.gpus()}


def test_healthy_gpus_are_listened_to_in_silence(driver: NvmlDriver) -> None:
    events: list[HealthEvent] = []
    end = driver.watch_health(events.append)
    end()
    assert events == []
