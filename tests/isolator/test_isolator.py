from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator, NvidiaVolume
from tests.support.golden import Golden
from tests.support.gpu_records import records_in

DRIVER = SimulatedDriver(4)
GPUS = DRIVER.gpus()
CONTROL = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]


def isolator(
    tmp_path: Path, gpus: Iterable[Gpu] = GPUS, *, driver: GpuDriver = DRIVER, volume: NvidiaVolume | None = None
) -> NvidiaGpuIsolator:
    """An isolator over the checkpoints in `tmp_path`, as one run of the agent has it."""
    return NvidiaGpuIsolator(gpus, driver, volume, Checkpoints(tmp_path / "containers"))


def test_container_gets_its_gpus_and_the_control_nodes_and_nothing_else(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare("a", 1)
    plan = isolation.prepare("b", 2)
    assert plan.gpus == tuple(GPUS[1:3])
    assert [node.path for node in plan.nodes] == ["/dev/nvidia1", "/dev/nvidia2", *CONTROL]
    assert {(rule.type, rule.major, rule.minor, rule.access) for rule in plan.rules} == {
        ("c", node.major, node.minor, "rwm") for node in plan.nodes
    }
    assert isolation.held == {"a": {GPUS[0]}, "b": {GPUS[1], GPUS[2]}}
    assert isolation.free == {GPUS[3]}


def test_container_without_gpus_gets_the_control_nodes(tmp_path: Path) -> None:
    plan = isolator(tmp_path).prepare("a", 0)
    assert plan.gpus == ()
    assert [node.path for node in plan.nodes] == CONTROL
    assert records_in(tmp_path / "containers") == [], "what holds nothing needs no record"


def test_no_rule_has_a_wildcard(tmp_path: Path) -> None:
    plan = isolator(tmp_path).prepare("a", 4)
    assert all(rule.major is not None and rule.minor is not None for rule in plan.rules)


def test_plan_names_the_containers_own_gpus_and_void_when_it_has_none(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    assert isolation.prepare("a", 2).environment == {"NVIDIA_VISIBLE_DEVICES": f"{GPUS[0].uuid},{GPUS[1].uuid}"}
    plan = isolation.prepare("b", 0)
    assert plan.environment == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert plan.search_paths == {}


def test_volume_is_part_of_the_plan(tmp_path: Path) -> None:
    volume = NvidiaVolume.create(tmp_path, DRIVER)
    assert volume is not None
    isolation = isolator(tmp_path, volume=volume)
    assert isolation.prepare("a", 1).search_paths == {
        "PATH": (f"{volume.host_path}/bin",),
        "LD_LIBRARY_PATH": (f"{volume.host_path}/lib", f"{volume.host_path}/lib64"),
    }
    with_image = isolation.prepare("b", 1, image=True)
    assert [mount.destination for mount in with_image.mounts] == ["/usr/local/nvidia"]


def test_machine_without_a_driver_adds_nothing_and_gives_none(tmp_path: Path) -> None:
    isolation = isolator(tmp_path, (), driver=NullDriver())
    plan = isolation.prepare("a", 0)
    assert (plan.gpus, plan.nodes, plan.rules, plan.mounts) == ((), (), (), ())
    with pytest.raises(NotEnoughGpus):
        isolation.prepare("b", 1)


def test_more_than_free_is_refused_and_leaves_nothing(tmp_path: Path, golden: Golden) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare("a", 3)
    with pytest.raises(NotEnoughGpus) as refused:
        isolation.prepare("b", 2)
    assert str(refused.value) == golden
    assert set(isolation.held) == {"a"}
    assert isolation.prepare("b", 1).gpus == (GPUS[3],)


def test_mesos_scalar_of_a_whole_number_is_one_and_a_part_is_refused(tmp_path: Path, golden: Golden) -> None:
    one = isolator(tmp_path)
    one.prepare("a", 1.0)
    assert len(one.status("a")) == 1
    for part in (0.5, 1.5, float("inf"), float("nan")):
        with pytest.raises(BadInput) as refused:
            one.prepare("b", part)
        assert str(refused.value) == golden
        with pytest.raises(BadInput) as refused:
            one.update("a", part)
        assert str(refused.value) == golden
    assert len(one.status("a")) == 1
    with pytest.raises(NotFound):
        one.status("b")


def test_prepare_twice_is_refused_and_takes_nothing_more(tmp_path: Path, golden: Golden) -> None:
    isolation = isolator(tmp_path)
    for container, gpus in (("a", 1), ("b", 0)):
        isolation.prepare(container, gpus)
        with pytest.raises(Conflict) as refused:
            isolation.prepare(container, 1)
        assert str(refused.value) == golden
    assert len(isolation.free) == 3


def test_cleanup_frees_and_twice_equals_once_and_unknown_is_no_error(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare("a", 2)
    for container in ("a", "a", "never-seen"):
        isolation.cleanup(container)
    assert isolation.free == set(GPUS)
    assert isolation.held == {}
    assert records_in(tmp_path / "containers") == []


def test_gpus_are_on_record_before_the_plan_is_given(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("a", 2)
    assert set(Checkpoints(tmp_path / "containers").load()) == {"a"}


def test_folder_that_cannot_be_made_is_an_error_of_the_constructor(tmp_path: Path) -> None:
    (tmp_path / "containers").touch()
    with pytest.raises(Unavailable):
        isolator(tmp_path)
    assert (tmp_path / "containers").read_bytes() == b""


def test_record_that_cannot_be_written_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = isolator(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable):
            isolation.prepare("a", 1)
    assert records_in(tmp_path / "containers") == []
    assert isolation.held == {}
    assert isolation.free == set(GPUS)


class FailsAfterWriting(Checkpoints):
    """The worst moment to fail: the record is there, and nobody knows whether it will last."""

    def save(self, container_id: str, gpus: Iterable[Gpu]) -> None:
        super().save(container_id, gpus)
        raise Unavailable("the disk went away")


def test_record_of_a_failed_prepare_is_taken_back(tmp_path: Path) -> None:
    isolation = NvidiaGpuIsolator(GPUS, DRIVER, None, FailsAfterWriting(tmp_path))
    with pytest.raises(Unavailable, match="the disk went away"):
        isolation.prepare("a", 1)
    assert records_in(tmp_path) == []


def test_id_that_is_no_file_name_is_refused_and_takes_nothing(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    with pytest.raises(BadInput):
        isolation.prepare("../a", 1)
    assert isolation.free == set(GPUS)


def test_restart_finds_what_live_containers_hold(tmp_path: Path, golden: Golden) -> None:
    before = isolator(tmp_path)
    before.prepare("a", 1)
    before.prepare("b", 2)
    before.prepare("c", 0)
    held, free = before.held, before.free
    before.close()
    after = isolator(tmp_path)
    assert after.recover({"a", "b", "c"}) == frozenset()
    assert after.held == held
    assert after.free == free
    with pytest.raises(Conflict) as refused:
        after.prepare("c", 1)
    assert str(refused.value) == golden


def test_orphans_are_told_and_keep_their_gpus_until_cleanup(tmp_path: Path) -> None:
    before = isolator(tmp_path)
    before.prepare("live", 1)
    before.prepare("orphan", 2)
    before.close()
    after = isolator(tmp_path)
    assert after.recover({"live"}) == {"orphan"}
    assert after.free == {GPUS[3]}
    with pytest.raises(NotEnoughGpus):
        after.prepare("new", 2)
    after.cleanup("orphan")
    assert after.prepare("new", 2).gpus == (GPUS[1], GPUS[2])


def test_gpu_that_vanished_does_not_stop_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    isolator(tmp_path).prepare("a", 2)
    with caplog.at_level(logging.WARNING):
        after = isolator(tmp_path, GPUS[1:])
        after.recover({"a"})
    assert after.held == {"a": {GPUS[1]}}
    assert caplog.messages == golden


def test_gpu_that_vanished_and_came_back_is_still_its_containers(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("a", 1)
    isolator(tmp_path, GPUS[1:]).recover({"a"})
    again = isolator(tmp_path)
    again.recover({"a"})
    assert again.held == {"a": {GPUS[0]}}


def test_orphan_whose_gpus_all_vanished_is_told_and_its_record_goes_with_it(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("a", 1)
    after = isolator(tmp_path, GPUS[1:])
    assert after.recover(()) == {"a"}
    after.cleanup("a")
    assert records_in(tmp_path / "containers") == []


def test_other_gpu_under_the_same_number_is_held_for_the_container_can_open_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    isolator(tmp_path).prepare("a", 1)
    other = Gpu(minor=0, index=0, uuid="GPU-new", name="Other GPU")
    after = isolator(tmp_path, [other])
    after.recover({"a"})
    assert after.held == {"a": {other}}
    assert "GPU-new" in caplog.text


def test_unreadable_record_is_an_error_and_nothing_is_offered(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("a", 1)
    (tmp_path / "containers" / "a.json").write_text("{")
    with pytest.raises(Unavailable, match=r"a\.json"):
        isolator(tmp_path).recover({"a"})


def test_two_records_of_one_gpu_are_an_error(tmp_path: Path, golden: Golden) -> None:
    checkpoints = Checkpoints(tmp_path / "containers")
    checkpoints.save("a", GPUS[:1])
    checkpoints.save("b", GPUS[:2])
    checkpoints.close()
    with pytest.raises(Unavailable) as refused:
        isolator(tmp_path).recover({"a", "b"})
    assert str(refused.value) == golden


def test_withdrawn_gpus_stay_withdrawn_over_recovery_until_they_are_restored(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("a", 1)
    isolation = isolator(tmp_path)
    isolation.withdraw([GPUS[0].uuid, GPUS[1].uuid])
    isolation.recover(["a"])
    assert isolation.held == {"a": {GPUS[0]}}
    assert isolation.prepare("b", 2).gpus == tuple(GPUS[2:4])
    isolation.cleanup("a")
    with pytest.raises(NotEnoughGpus):
        isolation.prepare("c", 1)
    isolation.restore([GPUS[0].uuid])
    assert isolation.prepare("c", 1).gpus == (GPUS[0],)
    assert isolation.withdrawn == {GPUS[1].uuid}
