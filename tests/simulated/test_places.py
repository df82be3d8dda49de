"""What NVML tells of where a simulated card is, how it is connected and what it has used, by NVIDIA's binding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulated.played import Played

pytestmark = pytest.mark.slow

PRELUDE = """
import json, pynvml
pynvml.nvmlInit()
cards = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]

def told(call, *arguments):
    try:
        answer = getattr(pynvml, "nvmlDeviceGet" + call)(*arguments)
    except pynvml.NVMLError as error:
        return type(error).__name__
    return list(answer) if hasattr(answer, "__len__") and not isinstance(answer, str) else answer

def show(*values):
    print(json.dumps(values))
"""


@pytest.fixture
def dgx(tmp_path: Path) -> Iterator[Played]:
    made = Played(tmp_path, 8, topology="dgx-1")
    try:
        yield made
    finally:
        made.end()


def lines(played: Played, text: str) -> list[object]:
    return [json.loads(line) for line in played.run(PRELUDE + text).splitlines()]


def numbers(words: list[int]) -> set[int]:
    return {64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1}


def test_a_card_is_near_the_cpus_of_its_node_and_near_all_where_there_is_no_such_node(dgx: Played) -> None:
    text = """
for card in (cards[0], cards[4]):
    cpus = told("CpuAffinity", card, 64), told("CpuAffinityWithinScope", card, 64, 1)
    show(*cpus, told("MemoryAffinity", card, 64, 0))
show(told("MemoryAffinity", cards[0], 64, 2), told("CpuAffinityWithinScope", cards[0], 64, 2))
"""
    *near, wrong = lines(dgx, text)
    for node, answers in zip((0, 1), near, strict=True):
        here = Path(f"/sys/devices/system/node/node{node}")
        cpus, in_scope, memory = (numbers(words) for words in answers)  # type: ignore[attr-defined]
        assert cpus == in_scope
        if here.exists():
            assert cpus == {int(one.name[3:]) for one in here.glob("cpu[0-9]*")}
        else:
            assert cpus >= os.sched_getaffinity(0)
        assert memory == {node if here.exists() else 0}
    assert wrong == ["NVMLError_InvalidArgument", "NVMLError_InvalidArgument"]


def test_links_have_a_version_and_a_speed_and_nothing_goes_over_them(dgx: Played, tmp_path: Path) -> None:
    text = """
show([told("NvLinkVersion", cards[0], link) for link in (0, 5, 6)])
show([told("NvLinkCapability", cards[0], 0, which) for which in range(6)])
fields = pynvml.nvmlDeviceGetFieldValues(cards[0], [84, 89, 90, 132, (138, 5), (139, 6)])
show([[field.nvmlReturn, field.value.ullVal] for field in fields])
show([told("P2PStatus", cards[0], cards[1], kind) for kind in (0, 2, 6)])
"""
    assert lines(dgx, text) == [
        [[2, 2, "NVMLError_InvalidArgument"]],
        [[0, 0, 0, 0, 0, 1]],
        [[[0, 25781], [0, 25781], [0, 25781], [2, 0], [0, 0], [2, 0]]],
        [[5, 5, "NVMLError_InvalidArgument"]],
    ]
    unconnected = Played(tmp_path / "pcie", 1, topology="pcie")
    try:
        assert lines(unconnected, 'show(told("NvLinkVersion", cards[0], 0), told("NvLinkState", cards[0], 0))') == [
            ["NVMLError_NotSupported", "NVMLError_NotSupported"]
        ]
    finally:
        unconnected.end()


def test_a_card_is_found_by_its_serial_number_and_no_other_is(dgx: Played) -> None:
    text = """
serials = [told("Serial", card) for card in cards]
show(serials, [pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleBySerial(serial)) for serial in serials])
show(told("HandleBySerial", "0000000000000"))
"""
    (serials, found), (nobody,) = lines(dgx, text)  # type: ignore[misc]
    assert serials == [f"{int(gpu.uuid[4:12], 16):013}" for gpu in dgx.gpus]
    assert (found, nobody) == (list(range(8)), "NVMLError_NotFound")


def test_no_error_was_counted_and_an_idle_card_says_why_its_clocks_are_low(dgx: Played) -> None:
    text = """
show([told("TotalEccErrors", cards[0], kind, since) for kind in (0, 1) for since in (0, 1)])
show([told("Clock", cards[0], kind, 0) for kind in range(4)], told("Clock", cards[0], 0, 1))
show(*(told(f"CurrentClocks{name}Reasons", cards[0]) for name in ("Event", "Throttle")))
show(told("CurrentDriverModel", cards[0]), told("RemappedRows", cards[0]))
"""
    assert lines(dgx, text) == [
        [[0, 0, 0, 0]],
        [[405, 405, 715, 405], "NVMLError_NotSupported"],
        [1, 1],
        ["NVMLError_NotSupported", "NVMLError_NotSupported"],
    ]


# Energy in mJ: idle cards use 25 W, busy ones up to 250.
ENERGY = """
import time
begin = told("TotalEnergyConsumption", cards[1])
while pynvml.nvmlDeviceGetUtilizationRates(cards[0]).gpu < 50:
    time.sleep(0.05)
show(told("CurrentClocksEventReasons", cards[0]))
busy = idle = begin
while busy < idle + 5000 or idle == begin:
    time.sleep(0.05)
    busy, idle = (told("TotalEnergyConsumption", card) for card in cards[:2])
show(idle - begin)
"""


def test_a_card_uses_energy_and_more_of_it_with_work(dgx: Played) -> None:
    dgx.start(["10", "30000"])
    (reasons,), (idle_mj,) = lines(dgx, ENERGY)  # type: ignore[misc]
    assert (reasons, idle_mj > 0) == (0, True)
