"""Limits, rlimits, /dev/shm and capabilities in an OCI bundle."""

from __future__ import annotations

from mesos_gpu.container.spec.bundle import BASE_MOUNTS, CAPABILITIES, cpu_limits
from mesos_gpu.container.spec.linux import (
    UNLIMITED,
    USUAL,
    LinuxSettings,
    Rlimit,
    capabilities_document,
    memory_document,
    rlimits_document,
    with_shm,
)


def test_without_wishes_nothing_changes() -> None:
    usual = list(CAPABILITIES)
    assert capabilities_document(USUAL, CAPABILITIES) == {"bounding": usual, "effective": usual, "permitted": usual}
    assert memory_document(USUAL, 64) == {"limit": 64}
    assert rlimits_document(USUAL) == {}
    assert with_shm(BASE_MOUNTS, USUAL) == list(BASE_MOUNTS)


def test_capabilities_that_are_asked_for_are_all_there_are() -> None:
    asked = capabilities_document(LinuxSettings(effective=("CAP_CHOWN",)), CAPABILITIES)
    assert set(asked) == {"bounding", "effective", "permitted", "inheritable", "ambient"}
    assert {tuple(names) for names in asked.values()} == {("CAP_CHOWN",)}
    narrow = capabilities_document(LinuxSettings(bounding=("CAP_KILL",)), CAPABILITIES)
    assert {tuple(names) for names in narrow.values()} == {("CAP_KILL",)}


def test_limits_above_what_is_sure() -> None:
    assert memory_document(LinuxSettings(mem_limit_bytes=128), 64) == {"limit": 128, "reservation": 64}
    assert memory_document(LinuxSettings(mem_limit_bytes=UNLIMITED), 64) == {"limit": -1, "reservation": 64}
    assert cpu_limits(500, cfs_quota=False, limit_milli=2000) == {"shares": 512, "quota": 200000, "period": 100000}
    assert cpu_limits(500, cfs_quota=True, limit_milli=UNLIMITED) == {"shares": 512}
    assert cpu_limits(500, cfs_quota=True) == {"shares": 512, "quota": 50000, "period": 100000}


def test_rlimits_and_shared_memory() -> None:
    settings = LinuxSettings(rlimits=(Rlimit("RLIMIT_NOFILE", 1, 2),), shm_bytes=1 << 20)
    assert rlimits_document(settings) == {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}]}
    (shm,) = (mount for mount in with_shm(BASE_MOUNTS, settings) if mount["destination"] == "/dev/shm")
    assert "size=1048576" in shm["options"]
