"""Isolators with `check_ledger`: what the comparison finds, and defects that it has found."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from mesos_gpu.errors import NotEnoughGpus
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator import (
    CardPart,
    Checkpoints,
    HeldGpu,
    NvidiaGpuIsolator,
    Share,
    ShareRecords,
    SharingIsolator,
)
from mesos_gpu.isolator.ledger import Allocate, Release, Withdraw, container
from mesos_gpu.isolator.live_ledger import LedgerDifferenceError, LiveLedger

GPUS = tuple(Gpu(minor=n, index=n, uuid=f"GPU-{n}", name="GPU") for n in range(2))


@pytest.fixture
def isolator(tmp_path: Path) -> NvidiaGpuIsolator:
    return NvidiaGpuIsolator(GPUS, NullDriver(), None, Checkpoints(tmp_path), check_ledger=True)


def test_a_vanished_gpu_is_gone_when_its_container_ends(isolator: NvidiaGpuIsolator) -> None:
    isolator.prepare("a", 1)
    isolator.manage(GPUS[1:])
    assert isolator.total == frozenset(GPUS)
    isolator.cleanup("a")
    assert isolator.free == isolator.total == frozenset(GPUS[1:])
    with pytest.raises(NotEnoughGpus):
        isolator.prepare("b", 2)


def test_a_gpu_in_the_place_of_one_that_is_held_can_be_allocated_when_the_holder_ends(
    isolator: NvidiaGpuIsolator,
) -> None:
    isolator.prepare("a", 1)
    other = replace(GPUS[0], uuid="GPU-other")
    isolator.manage([other, GPUS[1]])
    assert (isolator.blocked, isolator.prepare("b", 1).gpus) == ({"GPU-other"}, (GPUS[1],))
    isolator.cleanup("a")
    assert (isolator.blocked, isolator.free) == (frozenset(), {other})


def test_instances_of_a_gpu_whose_mig_mode_others_switched_are_there_when_its_lease_ends(
    isolator: NvidiaGpuIsolator,
) -> None:
    nodes = (DeviceNode("/dev/nvidia-caps/nvidia-cap1", 240, 1),)
    instance = replace(GPUS[0], uuid="MIG-0", mig=MigInstance("GPU-0", 0, 0, nodes))
    isolator.lend("k", [GPUS[0]])
    isolator.manage([instance, GPUS[1]])
    assert isolator.total == frozenset(GPUS)
    isolator.take_back("k")
    assert isolator.free == {instance, GPUS[1]}


def test_what_a_container_with_a_share_can_open_is_not_forgotten_when_leases_are_taken_up(tmp_path: Path) -> None:
    """Its shared GPU has gone, and another GPU has its number now: no other container gets that one."""
    records, share = ShareRecords(tmp_path / "shares"), Share((CardPart(9, 1, 1),))
    records.save("s", share, [HeldGpu(0, "GPU-9")])
    whole = NvidiaGpuIsolator(GPUS, NullDriver(), None, Checkpoints(tmp_path / "gpus"), check_ledger=True)
    sharing = SharingIsolator(whole, [], [], records)
    assert whole.blocked == {"GPU-0"}
    whole.lend("k", GPUS[1:])
    assert (whole.blocked, sharing.shares) == ({"GPU-0"}, {"s": share})
    assert {one.id: has.share for one, has in whole.ledger.containers.items()} == {"s": share}


class TestReports:
    """What is logged; the fixture of the folder, which raises instead, is undone."""

    @pytest.fixture(autouse=True)
    def logged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()

    def test_each_difference_once_with_a_traceback(self, caplog: pytest.LogCaptureFixture) -> None:
        check = LiveLedger(GPUS)
        for _ in range(2):
            check.equal("free", 1, 2)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        assert record.exc_info[0] is LedgerDifferenceError

    def test_what_the_ledger_refuses_and_the_owner_did(self, caplog: pytest.LogCaptureFixture) -> None:
        check = LiveLedger(GPUS)
        check.apply(Allocate(container("a"), frozenset(GPUS)))
        check.apply(Allocate(container("b"), frozenset(GPUS)))
        assert len(caplog.records) == 1
        assert check.ledger.of(container("b")).gpus == frozenset()

    def test_holdings_that_the_ledger_does_not_know(
        self, isolator: NvidiaGpuIsolator, caplog: pytest.LogCaptureFixture
    ) -> None:
        isolator.prepare("a", 1)
        check = isolator.live_ledger
        check.apply(Release(container("a")))
        assert caplog.records == []
        isolator.withdraw(["GPU-1"])
        assert len(caplog.records) == 3, "holders, free and available"

    def test_decisions_that_differ(self, isolator: NvidiaGpuIsolator, caplog: pytest.LogCaptureFixture) -> None:
        check = isolator.live_ledger
        check.apply(Withdraw(frozenset({"GPU-0", "GPU-1"})))
        assert isolator.prepare("a", 1).gpus == GPUS[:1]
        assert any("1 GPUs" in record.getMessage() for record in caplog.records)
