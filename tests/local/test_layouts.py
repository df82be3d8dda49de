"""Which agents a box has when it comes up, by what was asked, what is noted, and what still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import Conflict, Unavailable
from mesos_gpu.local import layouts
from mesos_gpu.local.layouts import FILE, note_layout, noted_layout, numbers_on_disk, open_layout, says_make
from mesos_gpu.local.plan import GpuChoice, UpOptions
from mesos_gpu.local.pools import Layout
from tests.support.golden import Golden

SIMULATED = GpuChoice("simulated")
POOLS = ("name=t4,agents=2,gpus=4,model=Tesla-T4", "name=cpu,gpus=0")


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    monkeypatch.setattr(layouts, "runtime_dir", lambda _: folder)
    return folder


def up(work_dir: Path, gpus: GpuChoice = SIMULATED, **asked: object) -> Layout:
    return open_layout(UpOptions(work_dir=work_dir, **asked).checked(), gpus)  # type: ignore[arg-type]


def numbers(layout: Layout) -> dict[str, list[int]]:
    return {pool.name: [seat.number for seat in layout.of(pool.name)] for pool in layout.pools}


def test_a_box_that_was_told_of_no_pools_notes_none(tmp_path: Path) -> None:
    assert numbers(up(tmp_path, agents=2)) == {"default": [1, 2]}
    assert numbers(up(tmp_path)) == {"default": [1]}
    assert not (tmp_path / FILE).exists()


def test_pools_come_back_until_others_are_asked_for(tmp_path: Path) -> None:
    assert numbers(up(tmp_path, pools=POOLS)) == {"t4": [1, 2], "cpu": [3]}
    assert numbers(up(tmp_path)) == {"t4": [1, 2], "cpu": [3]}
    assert numbers(up(tmp_path, pools=POOLS[1:])) == {"cpu": [3]}
    counted = up(tmp_path, agents=2)
    assert numbers(counted) == {"default": [1, 2]}
    (tmp_path / "agent1").mkdir()
    assert numbers(up(tmp_path, pools=POOLS))["cpu"] == [5]


def test_counted_agents_in_place_of_pools_have_numbers_of_their_own(tmp_path: Path) -> None:
    up(tmp_path, pools=POOLS)
    assert numbers(up(tmp_path, agents=1)) == {"default": [4]}
    assert numbers(up(tmp_path)) == {"default": [4]}


def test_a_machine_with_other_gpus_has_its_pools_dealt_out_anew(tmp_path: Path) -> None:
    up(tmp_path, GpuChoice("nvml", (0, 1, 2)), pools=("name=one,gpus=1,agents=2",))
    again = up(tmp_path, GpuChoice("nvml", (1, 2)))
    assert sorted(card for seat in again.seats for card in seat.devices) == [1, 2]
    assert [seat.devices for seat in up(tmp_path, GpuChoice("nvml", (4, 5)), agents=2).seats] == [(4,), (5,)]


def test_agents_with_containers_of_before_are_not_left_out(tmp_path: Path, runtime: Path, golden: Golden) -> None:
    up(tmp_path, pools=POOLS)
    (runtime / "agent3" / "containers").mkdir(parents=True)
    (runtime / "agent3" / "containers" / "c1.json").touch()
    with pytest.raises(Conflict) as refused:
        up(tmp_path, agents=1)
    assert str(refused.value) == golden
    assert numbers(up(tmp_path)) == {"t4": [1, 2], "cpu": [3]}


def test_a_damaged_file_is_said_and_can_be_replaced(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(Unavailable) as refused:
        up(tmp_path)
    assert str(refused.value) == golden
    assert not says_make(UpOptions(work_dir=tmp_path))
    assert numbers(up(tmp_path, pools=POOLS)) == {"t4": [1, 2], "cpu": [3]}
    note_layout(tmp_path, None)
    assert noted_layout(tmp_path) is None


def test_pools_that_say_what_their_gpus_are_want_simulated_ones(tmp_path: Path) -> None:
    assert says_make(UpOptions(work_dir=tmp_path, pools=POOLS))
    assert not says_make(UpOptions(work_dir=tmp_path, pools=POOLS[1:]))
    up(tmp_path, pools=POOLS)
    assert says_make(UpOptions(work_dir=tmp_path))
    assert not says_make(UpOptions(work_dir=tmp_path, agents=1))


def test_folders_of_agents_are_found_by_number(tmp_path: Path) -> None:
    for name in ("agent1", "agent12", "agent2x", "agents"):
        (tmp_path / name).mkdir()
    (tmp_path / "agent3").touch()
    assert numbers_on_disk(tmp_path) == {1, 12}
