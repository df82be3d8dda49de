"""Cards that several containers open: what each is given, what is on record, and what comes back after a restart."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus, Unavailable
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard

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
    assert not (tmp_path / "shares").exists()


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
    assert isolator(tmp_path).recover([]) == {"d", "e"}


def test_a_nested_container_sees_the_card_of_its_parent(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(6))
    assert isolation.prepare(CHILD, 0).nodes[0].path == "/dev/nvidia2"


def test_no_more_of_a_card_is_given_than_there_is(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(10, 20))
    with pytest.raises(NotEnoughGpus, match="Requested 6 GiB of card 2 but only 5 available"):
        isolation.prepare(B, 0, share=share(6))
    with pytest.raises(NotEnoughGpus, match="Requested 6 slices of card 2 but only 5 available"):
        isolation.prepare(B, 0, share=share(5, 6))
    isolation.prepare(B, 0, share=share(5, 5))


@pytest.mark.parametrize(("gpus", "asked"), [(1, share(1)), (0, share(1, card=0))])
def test_what_cannot_be_is_refused(tmp_path: Path, gpus: int, asked: Share) -> None:
    with pytest.raises(BadInput):
        isolator(tmp_path).prepare(A, gpus, share=asked)
    assert not (tmp_path / "shares").exists()


def test_a_container_is_prepared_once_and_given_no_whole_gpu_later(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare(A, 0, share=share(1))
    with pytest.raises(Conflict):
        isolation.prepare(A, 0, share=share(1))
    with pytest.raises(BadInput, match="shares GPUs"):
        isolation.update(A, 1)


def test_a_share_is_on_disk_before_it_is_held_and_the_next_process_knows_it(tmp_path: Path) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6, 2, high=True))
    again = isolator(tmp_path)
    assert again.recover([A]) == frozenset()
    assert again.shares == {A: share(6, 2, high=True)}
    assert isolator(tmp_path).recover([]) == {A}
    again.cleanup(A)
    again.cleanup(A)
    assert again.shares == {}
    assert isolator(tmp_path).recover([]) == frozenset()


def test_a_share_that_cannot_be_recorded_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "shares").write_text("in the way")
    isolation = isolator(tmp_path)
    with pytest.raises(Unavailable):
        isolation.prepare(A, 0, share=share(6))
    (tmp_path / "shares").unlink()
    isolation.prepare(A, 0, share=share(6))


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    isolator(tmp_path).prepare(A, 0, share=share(6))
    (tmp_path / "shares" / "a.json").write_text("{")
    with pytest.raises(Unavailable, match=r"shares/a\.json does not say"):
        isolator(tmp_path).recover([A])


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
    again = isolator(tmp_path)
    again.recover([A])
    assert again.shares[A].parts == share(6, card=3).parts
