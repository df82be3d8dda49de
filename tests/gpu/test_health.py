from __future__ import annotations

import queue
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import Gpu, HealthEvent, MigInstance
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.gpu.health import (
    TABLE,
    WITHDRAWN,
    XIDS,
    Condition,
    Health,
    Severity,
    Trigger,
    affected,
    describe,
    xid_of,
)
from mesos_gpu.gpu.simulated import SimulatedDriver
from tests.support.golden import Golden

GPUS = [Gpu(minor=index, index=index, uuid=f"GPU-{index}", name="H200") for index in range(4)]
FATAL, DRAIN, IGNORED = 79, 94, 31


def xid(index: int, number: int) -> HealthEvent:
    return HealthEvent(f"GPU-{index}", number, f"XID {number}")


LOST = HealthEvent("GPU-1", None, "it is lost")
DOUBT = HealthEvent(None, None, "NVML does not answer")


def after(*events: HealthEvent, health: Health | None = None) -> Health:
    health = Health.of(GPUS) if health is None else health
    for event in events:
        health, _ = health.on_event(event, 7.0)
    return health


def test_all_gpus_start_healthy() -> None:
    health = Health.of(GPUS)
    assert {health.condition(gpu.uuid) for gpu in GPUS} == {Condition.HEALTHY}
    assert health.withdrawn == frozenset()
    assert health.to_retest(withdrawn_too=True) == ()


def test_fatal_xid_withdraws_its_gpu_and_no_other_and_says_why_and_since_when() -> None:
    health, changes = Health.of(GPUS).on_event(xid(1, FATAL), 12.5)
    assert health.withdrawn == {"GPU-1"}
    illness = health.ill["GPU-1"]
    assert (illness.condition, illness.reason, illness.since, illness.xid) == (
        Condition.UNHEALTHY,
        "XID 79",
        12.5,
        FATAL,
    )
    (change,) = changes
    assert (change.gpu, change.before, change.after, change.xid) == (
        GPUS[1],
        Condition.HEALTHY,
        Condition.UNHEALTHY,
        FATAL,
    )


def test_gpu_that_is_lost_without_an_xid_is_unhealthy_and_blocks_no_other() -> None:
    health = after(LOST)
    assert health.withdrawn == {"GPU-1"}
    assert after(xid(2, FATAL), health=health).withdrawn == {"GPU-1", "GPU-2"}


def test_fault_of_an_application_changes_nothing() -> None:
    before = Health.of(GPUS)
    assert before.on_event(xid(0, IGNORED), 1.0) == (before, ())
    assert before.on_event(HealthEvent(None, IGNORED, "on a GPU without a name"), 1.0) == (before, ())


def test_contained_error_drains_the_gpu() -> None:
    health = after(xid(0, DRAIN))
    assert health.condition("GPU-0") is Condition.DRAINING
    assert health.withdrawn == {"GPU-0"}


def test_draining_gpu_gets_worse_but_an_unhealthy_one_not_better_by_a_lesser_error() -> None:
    assert after(xid(0, DRAIN), xid(0, FATAL)).condition("GPU-0") is Condition.UNHEALTHY
    assert after(xid(0, FATAL), xid(0, DRAIN)).condition("GPU-0") is Condition.UNHEALTHY


def test_event_again_tells_no_change_and_keeps_the_first_reason() -> None:
    ill = after(xid(0, FATAL))
    health, changes = ill.on_event(xid(0, 48), 99.0)
    assert changes == ()
    assert health.ill["GPU-0"].reason == "XID 79"


def test_event_that_names_no_gpu_makes_the_healthy_ones_suspect_and_withdraws_none() -> None:
    health = after(xid(2, FATAL), DOUBT)
    assert [health.condition(gpu.uuid).value for gpu in GPUS] == ["suspect", "suspect", "unhealthy", "suspect"]
    assert health.withdrawn == {"GPU-2"}
    assert health.to_retest(withdrawn_too=False) == (GPUS[0], GPUS[1], GPUS[3])


def test_retest_decides_about_a_suspect() -> None:
    health = after(DOUBT)
    health, passed = health.on_retest("GPU-0", None, 8.0)
    health, failed = health.on_retest("GPU-1", "it does not answer", 9.0)
    assert [change.after for change in (*passed, *failed)] == [Condition.HEALTHY, Condition.UNHEALTHY]
    assert (health.ill["GPU-1"].reason, health.ill["GPU-1"].since) == ("it does not answer", 9.0)


def test_withdrawn_gpus_are_tested_only_where_a_flag_says_so() -> None:
    health = after(xid(0, FATAL), xid(1, DRAIN))
    assert health.to_retest(withdrawn_too=False) == ()
    assert health.to_retest(withdrawn_too=True) == (GPUS[0], GPUS[1])


@pytest.mark.parametrize("number", [FATAL, DRAIN])
def test_gpu_comes_back_by_a_passed_retest_or_an_operators_word(number: int) -> None:
    ill = after(xid(3, number))
    assert ill.on_retest("GPU-3", "it needs a reset", 9.0) == (ill, ())
    for health, changes in (ill.on_retest("GPU-3", None, 9.0), ill.on_cleared("GPU-3", 9.0)):
        assert health == Health.of(GPUS)
        assert [change.after for change in changes] == [Condition.HEALTHY]


def test_gpu_of_somebody_else_changes_nothing() -> None:
    before = Health.of(GPUS)
    assert before.on_event(xid(9, FATAL), 1.0) == (before, ())
    assert before.on_cleared("GPU-9", 1.0) == (before, ())


def test_table_has_only_real_changes_and_every_bad_condition_has_a_way_back() -> None:
    assert all(before is not after for (before, _), after in TABLE.items())
    for condition in set(Condition) - {Condition.HEALTHY}:
        assert TABLE[condition, Trigger.PASSED] is TABLE[condition, Trigger.CLEARED] is Condition.HEALTHY
    assert all(TABLE[condition, Trigger.BROKEN] is Condition.UNHEALTHY for condition in set(Condition) - WITHDRAWN)


def test_every_xid_names_its_source_and_the_unknown_ones_are_fatal(golden: Golden) -> None:
    assert all(xid.source and xid.meaning for xid in XIDS.values())
    assert {number for number, xid in XIDS.items() if xid.severity is Severity.IGNORE} == {13, 31, 43, 45, 68, 109}
    assert xid_of(9999).severity is Severity.FATAL
    assert describe(79) == golden


def part(parent: int, gpu_instance: int, compute_instance: int) -> Gpu:
    uuid = f"MIG-{parent}-{gpu_instance}-{compute_instance}"
    return Gpu(parent, parent, uuid, "part", mig=MigInstance(f"GPU-{parent}", gpu_instance, compute_instance, ()))


PARTS = [part(1, 7, 0), part(1, 7, 1), part(1, 9, 0), part(2, 7, 0)]


@pytest.mark.parametrize(
    ("board", "instance", "expected"),
    [
        ("GPU-0", (), ["GPU-0"]),
        ("GPU-1", (7, 0), ["MIG-1-7-0"]),
        ("GPU-1", (7, 1), ["MIG-1-7-1"]),
        ("GPU-1", (7,), ["MIG-1-7-0", "MIG-1-7-1"]),
        ("GPU-1", (), ["MIG-1-7-0", "MIG-1-7-1", "MIG-1-9-0"]),
        ("GPU-1", (8, 0), []),
        ("GPU-5", (), []),
    ],
)
def test_event_is_about_its_instances_and_no_other(board: str, instance: tuple[int, ...], expected: list[str]) -> None:
    assert [gpu.uuid for gpu in affected([GPUS[0], *PARTS], board, *instance)] == expected


STEPS = st.one_of(
    st.builds(xid, st.integers(0, 4), st.sampled_from([FATAL, DRAIN, IGNORED, 9999])),
    st.sampled_from([LOST, DOUBT]),
    st.tuples(st.sampled_from(["retest", "cleared"]), st.integers(0, 4), st.sampled_from([None, "broken"])),
)


@given(st.lists(STEPS, max_size=30))
def test_any_history_tells_each_change_once_and_can_be_undone(steps: list[object]) -> None:
    health, known = Health.of(GPUS), dict.fromkeys((gpu.uuid for gpu in GPUS), Condition.HEALTHY)
    for now, step in enumerate(steps):
        if isinstance(step, HealthEvent):
            health, changes = health.on_event(step, now)
        else:
            word, index, why = step  # type: ignore[misc]
            uuid = f"GPU-{index}"
            health, changes = health.on_retest(uuid, why, now) if word == "retest" else health.on_cleared(uuid, now)
        for change in changes:
            assert known[change.gpu.uuid] is change.before
            assert change.before is not change.after
            known[change.gpu.uuid] = change.after
        assert {gpu.uuid: health.condition(gpu.uuid) for gpu in GPUS} == known
        assert health.withdrawn == {uuid for uuid, condition in known.items() if condition in WITHDRAWN}
    for gpu in GPUS:
        health, _ = health.on_cleared(gpu.uuid, 0.0)
    assert health == Health.of(GPUS)


def test_every_condition_takes_every_trigger() -> None:
    for condition, trigger in product(Condition, Trigger):
        assert TABLE.get((condition, trigger), condition) in Condition


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
