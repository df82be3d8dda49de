"""Simulated GPUs that a file makes ill."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import HealthEvent
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.gpu.simulated import SimulatedDriver
from tests.support.golden import Golden

WAIT_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "faults"


@pytest.fixture
def driver(file: Path) -> SimulatedDriver:
    return SimulatedDriver(4, faults=file)


@pytest.fixture
def events(driver: SimulatedDriver) -> Iterator[queue.Queue[HealthEvent]]:
    heard: queue.Queue[HealthEvent] = queue.Queue()
    end = driver.watch_health(heard.put)
    yield heard
    end()


def test_line_that_appears_is_an_event_of_that_gpu(
    driver: SimulatedDriver, file: Path, events: queue.Queue[HealthEvent], golden: Golden
) -> None:
    file.write_text("# the second card\n1 79\n")
    event = events.get(timeout=WAIT_S)
    assert (event.uuid, event.xid) == (driver.gpus()[1].uuid, 79)
    assert event.what == golden
    file.write_text(f"1 79\n{driver.gpus()[3].uuid} lost\n")
    assert events.get(timeout=WAIT_S) == HealthEvent(driver.gpus()[3].uuid, None, golden)
    assert events.empty(), "what was told is not told again"


def test_what_stands_in_the_file_before_is_told_too(driver: SimulatedDriver, file: Path) -> None:
    file.write_text("0 48\n0 63\n")
    heard: queue.Queue[HealthEvent] = queue.Queue()
    end = driver.watch_health(heard.put)
    try:
        assert [heard.get(timeout=WAIT_S).xid for _ in range(2)] == [48, 63]
    finally:
        end()


def test_retest_says_what_the_file_says_now(driver: SimulatedDriver, file: Path, golden: Golden) -> None:
    gpus = driver.gpus()
    file.write_text("0 79\n1 lost\n2 13\n")
    assert [driver.retest(gpu) for gpu in gpus] == [
        golden,
        golden,
        None,
        None,
    ]
    with pytest.raises(DeviceError) as refused:
        driver.usage(gpus[1])
    assert str(refused.value) == golden
    file.write_text("")
    assert [driver.retest(gpu) for gpu in gpus] == [None] * 4


def test_line_that_says_nothing_is_told_once_and_skipped(
    driver: SimulatedDriver, file: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    file.write_text("9 79\n0\n1 broken\n0 79\n")
    assert [driver.retest(gpu) is None for gpu in driver.gpus()] == [False, True, True, True]
    assert len(caplog.messages) == 3
    assert caplog.messages[0] == golden


def test_file_that_cannot_be_read_is_told_and_nothing_is_ill(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = SimulatedDriver(1, faults=tmp_path)
    assert driver.retest(driver.gpus()[0]) is None
    assert "Is a directory" in caplog.text


def test_flag_names_the_file(file: Path, golden: Golden) -> None:
    file.write_text("0 lost\n")
    driver = open_driver("simulated", simulated_gpus=1, simulated_faults=file)
    assert driver.retest(driver.gpus()[0]) == golden
