"""What is on record of a container's limits as they change, and what the kernel and statistics are told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mesos_gpu.container.cgroups.v1 import CgroupsV1
from mesos_gpu.container.cgroups.v2 import CgroupsV2
from mesos_gpu.container.spec.config import ContainerConfig, Size
from mesos_gpu.container.spec.linux import UNLIMITED, LinuxSettings
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.container.state.sizing import enforce, first_record, limits_shown, resized

MIB = 1 << 20


def launched(mem_mib: int = 64, **limits: Any) -> Record:
    config = ContainerConfig("c", Path("/s"), ("true",), {}, None, 500, mem_mib * MIB, 0, linux=LinuxSettings(**limits))
    return first_record(config, "boot")


class Told:
    """Cgroups that note what they are told."""

    def limit(self, container_id: str, cpu: Mapping[str, int], memory: Mapping[str, int]) -> None:
        self.cpu, self.memory = dict(cpu), dict(memory)


def told(record: Record, *, cfs_quota: bool = False) -> Told:
    cgroups = Told()
    enforce(cgroups, record, cfs_quota=cfs_quota)  # type: ignore[arg-type]
    return cgroups


def test_memory_grows_and_never_shrinks_below_what_may_be_in_use() -> None:
    record = resized(launched(64), Size(500, 256 * MIB))
    assert told(record).memory == {"limit": 256 * MIB}
    record = resized(record, Size(500, 64 * MIB))
    assert told(record).memory == {"limit": 256 * MIB, "reservation": 64 * MIB}
    assert limits_shown(record)["mem_soft_limit_bytes"] == 64 * MIB


def test_a_limit_is_more_than_what_it_is_sure_of() -> None:
    record = resized(launched(64), Size(500, 128 * MIB, cpus_limit_milli=2000, mem_limit_bytes=512 * MIB))
    assert told(record).memory == {"limit": 512 * MIB, "reservation": 128 * MIB}
    assert told(record).cpu == {"shares": 512, "quota": 200_000, "period": 100_000}
    assert limits_shown(record) == {
        "cpus_soft_limit": 0.5,
        "cpus_limit": 2.0,
        "mem_soft_limit_bytes": 128 * MIB,
        "mem_limit_bytes": 512 * MIB,
    }
    assert "quota" not in told(resized(record, Size(500, 64 * MIB))).cpu, "with its task its limit goes"
    assert told(resized(record, Size(500, 64 * MIB)), cfs_quota=True).cpu["quota"] == 50_000


def test_once_without_end_its_memory_stays_so() -> None:
    record = resized(launched(64), Size(500, 64 * MIB, cpus_limit_milli=UNLIMITED, mem_limit_bytes=UNLIMITED))
    assert told(record, cfs_quota=True).cpu == {"shares": 512}
    record = resized(record, Size(500, 64 * MIB))
    assert told(record).memory == {"limit": UNLIMITED, "reservation": 64 * MIB}
    shown = limits_shown(record)
    assert shown["mem_limit_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_launch_with_limits_is_on_record_with_them() -> None:
    record = launched(64, cpus_limit_milli=UNLIMITED, mem_limit_bytes=UNLIMITED)
    assert (record.cpus_limit_milli, record.mem_unlimited, record.mem_sure_bytes) == (UNLIMITED, True, 64 * MIB)
    assert limits_shown(record)["cpus_limit"] == os.cpu_count()
    assert launched(64, mem_limit_bytes=128 * MIB).mem_bytes == 128 * MIB


def test_a_record_of_before_there_were_limits_is_taken_for_what_it_says() -> None:
    old = msgspec.json.decode(
        b'{"container_id": "c", "step": "running", "boot_id": "b", "sandbox": "/s", "cpus_milli": 100,'
        b' "mem_bytes": 67108864}',
        type=Record,
    )
    assert told(old).memory == {"limit": 64 * MIB}
    assert limits_shown(old)["mem_soft_limit_bytes"] == 64 * MIB


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_of_cgroups_are_told_limits_and_their_absence(tmp_path: Path, version: int) -> None:
    cgroups: CgroupsV1 | CgroupsV2
    if version == 1:
        names = ("cpu", "memory", "devices")
        cgroups = CgroupsV1("mesos", {name: tmp_path / name for name in names})
        folders = [tmp_path / name / "mesos" / "c" for name in names]
        quota, files = "cpu/mesos/c/cpu.cfs_quota_us", ("limit_in_bytes", "soft_limit_in_bytes")
        memory, none, endless = "memory/mesos/c/memory", "-1", "-1"
        expected = "200000"
    else:
        cgroups = CgroupsV2("mesos", tmp_path)
        folders = [tmp_path / "mesos" / "c"]
        (tmp_path / "cgroup.controllers").write_text("cpu memory")
        quota, files = "mesos/c/cpu.max", ("max", "low")
        memory, none, endless = "mesos/c/memory", "max", "max"
        expected = "200000 100000"
    for folder in folders:
        folder.mkdir(parents=True)
    limited = resized(launched(64), Size(500, 64 * MIB, cpus_limit_milli=2000, mem_limit_bytes=UNLIMITED))
    enforce(cgroups, limited, cfs_quota=False)
    assert (tmp_path / quota).read_text() == expected
    assert [(tmp_path / f"{memory}.{file}").read_text() for file in files] == [endless, str(64 * MIB)]
    enforce(cgroups, resized(limited, Size(500, 64 * MIB)), cfs_quota=False)
    assert (tmp_path / quota).read_text() == none
