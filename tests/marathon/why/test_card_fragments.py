"""What is left of shared cards and that no part fits into."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.matching.machines import read_machine
from mesos_gpu.marathon.why.fragments import Part, parts_of, remainders
from mesos_gpu.marathon.why.request import spec_of
from tests.support.marathon.why import app


def slave(**more: Any) -> dict[str, Any]:
    total = {"cpus": 8, "mem": 8192, "gpu_mem": "[0-14, 3000-3015]", "gpu_slices": "[0-24, 3000-3024]"}
    return {"id": "S0", "hostname": "g", "resources": {**total, **more.pop("total", {})}, **more}


def found(slaves: list[dict[str, Any]], *parts: Part) -> list[tuple[int, int, int, tuple[str, ...]]]:
    return [
        (one.card, one.free_gib, one.stranded_gib, one.causes)
        for one in remainders([*map(read_machine, slaves)], sorted(parts)[::-1])
    ]


def test_each_card_is_filled_by_itself() -> None:
    assert found([slave()], Part(4, 1, 100, 10_000)) == [(0, 15, 3, ("cards",)), (3, 16, 0, ())]


def test_slices_cpus_and_memory_beside_are_causes() -> None:
    used = {"gpu_slices": "[0-23, 3000-3023]", "gpu_mem": "[3000-3015]"}
    assert found([slave(used_resources=used)], Part(4, 2, 100, 10_000)) == [(0, 15, 15, ("gpu_slices",))]
    assert found([slave(used_resources={"cpus": 8, "gpu_mem": "[3000-3015]"})], Part(5, 1, 1000, 10_000)) == [
        (0, 15, 15, ("cpus",))
    ]
    assert found([slave(used_resources={"mem": 8192, "gpu_mem": "[3000-3015]"})], Part(5, 1, 1000, 10_000)) == [
        (0, 15, 15, ("mem",))
    ]


def test_what_is_away_full_or_not_shared_is_left_out() -> None:
    assert found([slave(active=False)], Part(4, 1, 100, 10_000)) == []
    assert found([slave(total={"gpu_mem": "", "gpu_slices": ""})], Part(4, 1, 100, 10_000)) == []
    assert found([slave()])[0] == (3, 16, 16, ("cards",)), "without a mix all is stranded"


def test_parts_are_those_of_apps_and_pods() -> None:
    share = {"memGiB": [6, 2], "weight": 3}
    apps = [app(gpus=0, gpuShare=share), app(gpus=0, gpuShare=share, instances=0), app()]
    assert [(part.mem_gib, part.slices) for part in parts_of(map(spec_of, apps))] == [(6, 3), (2, 3)]


@given(st.integers(0, 15), st.integers(1, 16), st.integers(1, 16))
def test_no_part_fits_into_what_is_stranded(used: int, one: int, other: int) -> None:
    held = {"gpu_mem": f"[0-{used - 1}]"} if used else {}
    for card, free, stranded, _ in found([slave(used_resources=held)], Part(one, 1, 0, 0), Part(other, 1, 0, 0)):
        assert stranded < min(one, other)
        assert any((free - stranded - a * one) % other == 0 and free - stranded >= a * one for a in range(17))
        assert card in (0, 3)
