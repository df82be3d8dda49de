"""User namespaces that owners of files are taken from."""

from __future__ import annotations

import os

import pytest

from mesos_gpu.container.host.idmaps import UserNamespaces
from mesos_gpu.container.spec.user_namespace import IdRange, everyone

pytestmark = pytest.mark.root


def test_those_of_maps_that_come_again_are_kept_and_only_so_many() -> None:
    namespaces = UserNamespaces(most=2)
    maps = [everyone(IdRange(100_000 + 65536 * number, 65536)) for number in range(3)]
    first, second = (namespaces.descriptor(one) for one in maps[:2])
    assert os.fstat(first).st_ino != os.fstat(second).st_ino
    assert namespaces.descriptor(maps[0]) == first
    kept = os.fstat(first).st_ino
    namespaces.descriptor(maps[2])  # in the place of the one that was longest not asked for
    assert os.fstat(namespaces.descriptor(maps[0])).st_ino == kept
    held = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the kernel counts them
    namespaces.descriptor(maps[1])
    assert len(os.listdir("/proc/self/fd")) == held  # noqa: PTH208
    namespaces.close()
    assert len(os.listdir("/proc/self/fd")) == held - 2  # noqa: PTH208
