"""Cards that several containers open: what each is given, what is on record, and what comes back after a restart."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.support.golden import Golden
from tests.support.gpu_records import records_in

DRIVER = SimulatedDriver(4)
GPUS = DRIVER.gpus()
CARDS = [SharedCard(gpu.index, gpu.uuid, 15109, 25) for gpu in GPUS[2:]]
A, B, CHILD = ContainerId("a"), ContainerId("b"), ContainerId("a.child")


def isolator(folder: Path) -> SharingIsolator:
    """An isolator over the records in a folder, as one run of the agent has it: two cards whole, two shared."""
    whole = NvidiaGpuIsolator(GPUS[:2], DRIVER, None, Checkpoints(folder / "gpus"))
    return SharingIsolator(whole, GPUS[2:], CARDS, ShareRecords(folder / "shares"))


def share(mem: int, weight: int = 1, card: int = 2, *, high: bool = False) -> Share:
    return Share((CardPart(card, mem, weight),), high)


def test_two_containers_open_one_card_and_are_told_their_parts(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    first, second = isolation.prepare(A, 0, share=share(6, 2)), isolation.prepare(B, 0, share=share(9, high=True))
    for plan in (first, second):
        assert [node.path for node in plan.nodes][:2] == ["/dev/nvidia2", "/dev/nvidiactl"]
        assert [(rule.major, rule.minor) for rule in plan.rules][:1] == [(195, 2)]
        assert plan.environment["NVIDIA_VISIBLE_DEVICES"] == GPUS[2].uuid
    said = {name: value for name, value in first.environment.items() if name.startswith("ALIYUN")}
    assert said == {
        "ALIYUN_COM_GPU_MEM_CONTAINER": "6",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "ALIYUN_COM_GPU_SCHD_WEIGHT": "2",
    }
    assert second.environment["ALIYUN_COM_GPU_HIGH_PRIO"] == "1"


def test_whole_gpus_are_as_they_were(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    assert isolation.prepare(A, 2).gpus == tuple(GPUS[:2])
    with pytest.raises(NotEnoughGpus):
        isolation.prepare(B, 1)
    assert isolation.shares == {}
    assert records_in(tmp_path / "shares") == []


def test_what_could_not_be_given_back_is_as_soon_as_the_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 2)
    isolation.prepare(B, 0, share=share(15))

    def refuse(*args: object, **more: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(Path, "unlink", refuse)
        for ended in (A, B):
            with pytest.raises(Unavailable):
                isolation.cleanup(ended)
        with pytest.raises(NotEnoughGpus):
            isolation.prepare(ContainerId("c"), 1)
    assert isolation.prepare(ContainerId("d"), 2).gpus == tuple(GPUS[:2])
    isolation.prepare(ContainerId("e"), 0, share=share(15))
    isolation.close()
    assert isolator(tmp_path).recover([]) == {"d", "e"}


def test_a_nested_container_sees_the_card_of_its_parent(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(6))
    assert isolation.prepare(CHILD, 0).nodes[0].path == "/dev/nvidia2"


def test_no_more_of_a_card_is_given_than_there_is(tmp_path: Path, golden: Golden) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(10, 20))
    with pytest.raises(NotEnoughGpus) as refused:
        isolation.prepare(B, 0, share=share(6))
    assert str(refused.value) == golden
    with pytest.raises(NotEnoughGpus) as refused:
        isolation.prepare(B, 0, share=share(5, 6))
    assert str(refused.value) == golden
    isolation.prepare(B, 0, share=share(5, 5))


@pytest.mark.parametrize(("gpus", "asked"), [(1, share(1)), (0, share(1, card=0))])
def test_what_cannot_be_is_refused(tmp_path: Path, gpus: int, asked: Share) -> None:
    with pytest.raises(BadInput):
        isolator(tmp_path).prepare(A, gpus, share=asked)
    assert records_in(tmp_path / "shares") == []


def test_a_container_is_prepared_once_and_given_no_whole_gpu_later(tmp_path: Path, golden: Golden) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(1))
    with pytest.raises(Conflict):
        isolation.prepare(A, 0, share=share(1))
    with pytest.raises(BadInput) as refused:
        isolation.update(A, 1)
    assert str(refused.value) == golden


def test_a_share_is_on_disk_before_it_is_held_and_the_next_process_knows_it(tmp_path: Path) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6, 2, high=True))
    again = isolator(tmp_path)
    assert again.recover([A]) == frozenset()
    assert again.shares == {A: share(6, 2, high=True)}
    again.close()
    again = isolator(tmp_path)
    assert again.recover([]) == {A}
    again.cleanup(A)
    again.cleanup(A)
    assert again.shares == {}
    again.close()
    assert isolator(tmp_path).recover([]) == frozenset()


def test_a_share_that_cannot_be_recorded_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = isolator(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(Unavailable):
            isolation.prepare(A, 0, share=share(6))
    assert records_in(tmp_path / "shares") == []
    isolation.prepare(A, 0, share=share(6))


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, golden: Golden) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6))
    (tmp_path / "shares" / "a.json").write_text("{")
    with pytest.raises(Unavailable) as refused:
        isolator(tmp_path).recover([A])
    assert str(refused.value) == golden


class Opened:
    """What the kernel lets a container open."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.nodes: list[str] = []

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        self.nodes, self.closed = [node.path for node in nodes], [node.path for node in closed]

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return frozenset()


def renumbered(folder: Path, whole: Sequence[Gpu], shared: Sequence[Gpu], opened: Opened) -> SharingIsolator:
    """An isolator of a later run of the agent, whose driver numbers GPUs as it is told."""
    alone = NvidiaGpuIsolator(whole, DRIVER, None, Checkpoints(folder / "gpus"), live_access=lambda pid: opened)
    return SharingIsolator(alone, shared, CARDS, ShareRecords(folder / "shares"))


def test_a_card_that_got_another_number_is_denied_under_the_old_one_before_that_is_given(tmp_path: Path) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6))
    opened = Opened()
    swapped = [replace(GPUS[0], minor=2), GPUS[1]], [replace(GPUS[2], minor=0), GPUS[3]]
    after = renumbered(tmp_path, *swapped, opened)
    after.recover([A])
    assert [node.path for node in after.stale()[A]] == ["/dev/nvidia2"]
    with pytest.raises(NotEnoughGpus):
        after.prepare(B, 2)
    after.isolate(A, 7)
    after.revoke(A)
    assert opened.closed == ["/dev/nvidia2"]
    assert after.stale() == {}
    assert after.prepare(B, 2).gpus == (GPUS[1], swapped[0][0])


def test_a_card_that_is_shared_no_more_is_denied_to_those_who_shared_it_before_it_is_given_whole(
    tmp_path: Path,
) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6))
    opened = Opened()
    after = renumbered(tmp_path, GPUS[:3], GPUS[3:], opened)
    after.recover([A])
    with pytest.raises(NotEnoughGpus):
        after.prepare(B, 3)
    after.isolate(A, 7)
    after.revoke(A)
    assert opened.closed == ["/dev/nvidia2"]
    assert "/dev/nvidia2" not in opened.nodes
    assert after.prepare(B, 3).gpus == tuple(GPUS[:3])


def test_a_card_that_another_can_still_open_is_not_shared(tmp_path: Path) -> None:
    isolator(tmp_path).prepare(A, 1)
    opened = Opened()
    swapped = [replace(GPUS[0], minor=2), GPUS[1]], [replace(GPUS[2], minor=0), GPUS[3]]
    after = renumbered(tmp_path, *swapped, opened)
    after.recover([A])
    with pytest.raises(NotEnoughGpus):
        after.prepare(B, 0, share=share(6))
    after.isolate(A, 7)
    after.revoke(A)
    assert after.prepare(B, 0, share=share(6)).nodes[0].path == "/dev/nvidia0"


class Killed(BaseException):
    """The agent process ends here."""


def test_a_resumed_share_is_on_disk_before_its_container_can_open_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(6))
    monkeypatch.setattr(isolation._whole, "reach", lambda *_: None)
    isolation.reshare(A, ())

    def reach(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(isolation._whole, "reach", reach)
    with pytest.raises(Killed):
        isolation.reshare(A, share(6, card=3).parts)
    isolation.close()
    again = isolator(tmp_path)
    again.recover([A])
    assert again.shares[A].parts == share(6, card=3).parts
