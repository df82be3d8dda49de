"""NvmlDriver over a shared library: struct layouts, sizes, error codes and threads as ctypes sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.nvml_program import Program, shown, stub_uuid

pytestmark = pytest.mark.slow

LIST = """
driver = NvmlDriver()
show(driver.version)
for gpu in driver.gpus():
    show(asdict(gpu))
driver.close()
"""


def gpus(done: object) -> list[dict[str, object]]:
    return shown(done)[1:]  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 4, 16])
def test_every_gpu_is_listed(program: Program, count: int) -> None:
    done = program(LIST, {"count": count})
    assert shown(done)[0] == "550.54.15"
    assert gpus(done) == [
        {
            "minor": index,
            "index": index,
            "uuid": stub_uuid(index),
            "name": "Stub GPU",
            "memory_mib": 81920,
            "bus_id": f"00000000:{0x10 + index:02X}:00.0",
            "mig_enabled": None,
            "mig": None,
        }
        for index in range(count)
    ]


def test_minor_is_the_drivers_and_a_lost_gpu_leaves_the_rest(program: Program, golden: Golden) -> None:
    done = program(
        LIST, {"count": 4, "gpu.0.minor": 2, "gpu.1.error": 15, "gpu.2.mig": 1, "gpu.3.minor": 5, "gpu.3.mig": 0}
    )
    assert [(gpu["index"], gpu["minor"], gpu["mig_enabled"]) for gpu in gpus(done)] == [(0, 2, None), (3, 5, False)]
    assert done.stderr == golden


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (None, "NVML could not start: Driver Not Loaded"),
        ({"init": 18}, "NVML could not start: RM has detected an NVML/RM version mismatch"),
        ({"init": 999}, "NVML could not start: Unknown Error"),
        ({"driver": "340.28"}, "the NVIDIA driver is version 340.28; at least 340.29 is needed"),
        ({"count_error": 1}, "NVML could not count the GPUs: Uninitialized"),
    ],
)
def test_call_that_fails_is_one_error_in_words(
    program: Program, answers: dict[str, object] | None, reason: str
) -> None:
    done = program(LIST, answers)
    assert done.returncode != 0
    assert f"DeviceError: {reason}" in done.stderr


def known(readings: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in readings.items() if value is not None}


def test_usage_is_what_the_driver_reports(program: Program) -> None:
    done = program(
        "driver = NvmlDriver()\nfor gpu in driver.gpus():\n    show(asdict(driver.usage(gpu)))",
        {"count": 2, "gpu.0.used": 1024, "gpu.0.util": 37, "gpu.0.milliwatts": 250500, "gpu.0.celsius": 61},
    )
    first, second = shown(done)
    assert known(first) == {
        "memory_used_mib": 1024,
        "memory_total_mib": 81920,
        "utilization_percent": 37,
        "memory_busy_percent": 0,
        "power_w": 250.5,
        "temperature_c": 61,
        "processes": [],
    }
    assert known(second) == {"memory_used_mib": 0, "memory_total_mib": 81920, "processes": []}


def test_everything_that_a_gpu_reports_is_read(program: Program) -> None:
    answers = {
        **{"count": 1, "gpu.0.util": 12, "gpu.0.memory_util": 3, "gpu.0.enc": 1, "gpu.0.dec": 2},
        **{"gpu.0.clock": "1189:715", "gpu.0.memory_celsius": 70, "gpu.0.energy": 123456789012, "gpu.0.replays": 6},
        **{"gpu.0.ecc_errors": "7:8:9", "gpu.0.bar1": "5:16384", "gpu.0.throughput": "4200:1300"},
    }
    text = "change(gpu__0__process__0=f'{os.getpid()}:2303:C:1')\ndriver = NvmlDriver()\ngpu = driver.gpus()[0]\n"
    (usage, me) = shown(program(f"{text}show([asdict(driver.usage(gpu)), os.getpid()])", answers))[0]
    (process,) = usage.pop("processes")
    assert (process["pid"], process["memory_mib"]) == (me, 2303)
    assert "python" in process["name"]
    assert known(usage) == {
        **{"memory_used_mib": 0, "memory_total_mib": 81920, "utilization_percent": 12, "memory_busy_percent": 3},
        **{"encoder_percent": 1, "decoder_percent": 2, "core_mhz": 1189, "memory_mhz": 715},
        **{"memory_temperature_c": 70, "energy_mj": 123456789012, "pci_replays": 6},
        **{"l1_errors": 7, "l2_errors": 8, "memory_errors": 9, "bar1_used_mib": 5},
        **{"pci_rx_kb_s": 4200, "pci_tx_kb_s": 1300},
    }


DETAILS = "driver = NvmlDriver()\nfor gpu in driver.gpus():\n    show(asdict(driver.details(gpu)))"


def test_details_are_those_of_the_card(program: Program) -> None:
    card = {"brand": 2, "arch": "6.0", "cores": 3584, "limit": 250000, "bar1": "2:16384", "pcie": "3:16"}
    card |= {"clock_max": "1328:715", "bus_width": 4096, "ecc": 1}
    answers = {"count": 3, **{f"gpu.0.{name}": value for name, value in card.items()}}
    answers |= {"gpu.1.brand": 14, "gpu.1.arch": "9.0", "gpu.1.pcie": "9:16", "gpu.1.ecc": 0}
    first, second, third = shown(program(DETAILS, answers))
    assert first == {
        **{"arch": "6.0", "brand": "Tesla", "cores": 3584, "power_w": 250, "numa_node": 0, "bar1_mib": 16384},
        **{"pci_mb_s": 15760, "core_mhz": 1328, "memory_mhz": 715, "ecc": True, "shared_kib": 64},
        **{"constant_kib": 64, "l2_kib": None, "memory_mb_s": 732160},
    }
    told = {"arch": "9.0", "brand": "Unknown", "pci_mb_s": 0, "ecc": False, "numa_node": 0}
    assert known(second) == {**told, "shared_kib": 228, "constant_kib": 64}
    assert known(third) == {"numa_node": 0}


def test_a_gpu_that_is_lost_has_no_details_and_the_log_says_why(program: Program, golden: Golden) -> None:
    text = "driver = NvmlDriver()\ngpu = driver.gpus()[0]\nchange(gpu__0__error=15)\nshow(asdict(driver.details(gpu)))"
    done = program(text, {"count": 1})
    assert known(shown(done)[0]) == {}
    assert done.stderr == golden


def test_usage_of_a_lost_gpu_is_an_error_and_its_retest_says_why(program: Program, golden: Golden) -> None:
    done = program(
        """
driver = NvmlDriver()
gpus = driver.gpus()
show([driver.retest(gpu) for gpu in gpus])
change(gpu__0__error=15, gpu__1__recovery=1)
show([driver.retest(gpu) for gpu in gpus])
driver.usage(gpus[0])
""",
        {"count": 3, "gpu.1.recovery": 0},
    )
    assert done.stdout.splitlines() == golden
    assert done.stderr.splitlines()[-1] == golden.hide(uuid=stub_uuid(0))


TOPOLOGY = """
driver = NvmlDriver()
links = driver.topology().links
show(sorted([*sorted(pair), int(link.level), link.nvlinks] for pair, link in links.items()))
"""


def test_topology_has_levels_and_nvlinks_between_gpus(program: Program) -> None:
    answers = {"count": 3, "level.0.1": 10, "level.0.2": 40}
    answers |= {"gpu.0.links": 6, "gpu.0.link.0": 1, "gpu.0.link.3": 1, "gpu.1.links": 6, "gpu.1.link.1": 0}
    assert shown(program(TOPOLOGY, answers)) == [
        [[stub_uuid(0), stub_uuid(1), 10, 2], [stub_uuid(0), stub_uuid(2), 40, 0], [stub_uuid(1), stub_uuid(2), 50, 0]]
    ]


def test_every_pair_on_a_switch_has_all_links(program: Program) -> None:
    answers = {"count": 3} | {f"gpu.{gpu}.links": 4 for gpu in range(3)}
    answers |= {f"gpu.{gpu}.link.{link}": 99 for gpu in range(3) for link in range(4)}
    assert [pair[3] for pair in shown(program(TOPOLOGY, answers))[0]] == [4, 4, 4]


def test_lost_gpu_is_left_out_of_the_topology_of_the_rest(program: Program) -> None:
    done = program(TOPOLOGY, {"count": 3, "gpu.1.error": 15, "level.0.2": 20})
    assert shown(done) == [[[stub_uuid(0), stub_uuid(2), 20, 0]]]


MIG = """
here = Path()
driver = NvmlDriver(mig_instances=True, capabilities=Capabilities(here / "devices", here / "minors", here / "caps"))
for gpu in driver.gpus():
    show(asdict(gpu))
gpu = driver.gpus()[-1]
show([asdict(driver.usage(gpu)), driver.retest(gpu)])
"""


def test_mig_instances_of_sparse_slots_are_listed_with_their_nodes(program: Program, tmp_path: Path) -> None:
    mig_files(tmp_path)
    done = program(
        MIG,
        {"count": 2, "gpu.1.minor": 4, "gpu.1.mig": 1, "gpu.1.slot.2": "7:0", "gpu.1.slot.5": "9:1", "gpu.1.used": 800},
    )
    whole, first, second, last = shown(done)
    assert (whole["uuid"], whole["mig"]) == (stub_uuid(0), None)
    assert (first["uuid"], first["minor"], first["index"]) == (stub_uuid(1, 2), 4, 1)
    assert (first["name"], first["memory_mib"]) == ("Stub GPU MIG 1g.10gb", 10240)
    assert second["uuid"] == stub_uuid(1, 5)
    assert second["mig"] == {
        "parent_uuid": stub_uuid(1),
        "gpu_instance": 9,
        "compute_instance": 1,
        "nodes": [node(84, 0o400), node(86, 0o444)],
    }
    assert known(last[0]) == {"memory_used_mib": 100, "memory_total_mib": 10240, "processes": []}
    assert last[1] is None


def mig_files(tmp_path: Path) -> None:
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n238 nvidia-caps\n\nBlock devices:\n")
    (tmp_path / "minors").write_text(
        "config 1\nmonitor 2\ngpu4/gi7/access 66\ngpu4/gi7/ci0/access 67\ngpu4/gi9/access 84\ngpu4/gi9/ci1/access 86\n"
    )
    mode = tmp_path / "caps" / "gpu4" / "mig" / "gi9" / "access"
    mode.parent.mkdir(parents=True)
    mode.write_text("DeviceFileMinor: 84\nDeviceFileMode: 256\nDeviceFileModify: 1\n")


def node(minor: int, mode: int) -> dict[str, object]:
    path = f"/dev/nvidia-caps/nvidia-cap{minor}"
    return {"path": path, "major": 238, "minor": minor, "mode": mode, "uid": 0, "gid": 0}


WATCH = """
here = Path()
driver = NvmlDriver(
    mig_instances=True,
    capabilities=Capabilities(here / "devices", here / "minors", here / "caps"),
    pace=Pace(turn_s=0.05, probe_s=0.1, pause_s=0.05),
)
events = queue.Queue()
end = driver.watch_health(events.put)

def next_event():
    event = events.get(timeout=60)
    show([event.uuid, event.xid, event.what])
"""

EVERY_GPU_REPORTS = {f"gpu.{gpu}.events": 0xFB for gpu in range(4)}
WHOLE = 0xFFFFFFFF


def test_xid_is_told_of_its_gpu_alone_and_other_types_are_not_told(program: Program, golden: Golden) -> None:
    answers = {
        "count": 4,
        **EVERY_GPU_REPORTS,
        "event.0": f"1:1:0:{WHOLE}:{WHOLE}",
        "event.1": f"2:8:79:{WHOLE}:{WHOLE}",
    }
    done = program(
        WATCH
        + f"""
next_event()
change(event__2='0:8:13:{WHOLE}:{WHOLE}')
next_event()
driver.close()
show(events.qsize())
""",
        answers,
    )
    assert shown(done) == [
        [stub_uuid(2), 79, golden],
        [stub_uuid(0), 13, golden],
        0,
    ]


def test_gpu_that_is_lost_is_told_alone_and_the_rest_is_listened_to(program: Program, golden: Golden) -> None:
    done = program(
        WATCH
        + f"""
change(gpu__1__error=15, wait_error=15)
next_event()
change(wait_error=0, event__0='3:8:48:{WHOLE}:{WHOLE}')
next_event()
end()
end()
""",
        {"count": 4, **EVERY_GPU_REPORTS},
    )
    assert shown(done) == [
        [stub_uuid(1), None, golden],
        [stub_uuid(3), 48, golden],
    ]


def test_gpu_that_vanishes_without_an_event_is_found(program: Program, golden: Golden) -> None:
    done = program(WATCH + "change(gpu__0__error=15)\nnext_event()\nend()", {"count": 2, **EVERY_GPU_REPORTS})
    assert shown(done) == [[stub_uuid(0), None, golden]]


def test_error_of_waiting_that_names_no_gpu_puts_all_in_doubt_once(program: Program, golden: Golden) -> None:
    done = program(
        WATCH
        + f"""
next_event()
change(wait_error=0, event__0='0:8:95:{WHOLE}:{WHOLE}')
next_event()
end()
""",
        {"count": 2, **EVERY_GPU_REPORTS, "wait_error": 999},
    )
    assert shown(done) == [
        [None, None, golden],
        [stub_uuid(0), 95, golden],
    ]


def test_gpu_that_reports_no_events_is_told_and_watched_by_looking(program: Program, golden: Golden) -> None:
    done = program(WATCH + "change(gpu__0__error=16)\nnext_event()\nend()", {"count": 1})
    ((uuid, xid, what),) = shown(done)
    assert (uuid, xid) == (stub_uuid(0), None)
    assert what.replace("restart", "reset") == golden  # bindings differ in this word
    assert done.stderr == golden


def test_event_of_an_instance_is_that_instances_and_one_of_the_gpu_is_all_of_its_instances(
    program: Program, tmp_path: Path
) -> None:
    mig_files(tmp_path)
    answers: dict[str, object] = {"count": 2, **EVERY_GPU_REPORTS}
    answers |= {"gpu.1.minor": 4, "gpu.1.mig": 1, "gpu.1.slot.2": "7:0", "gpu.1.slot.5": "9:1"}
    answers |= {"event.0": "1:8:94:7:0", "event.1": "1:8:95:9:1", "event.2": f"1:8:79:{WHOLE}:{WHOLE}"}
    done = program(WATCH + "for _ in range(4):\n    next_event()\nend()\nshow(events.qsize())", answers)
    *told, left = shown(done)
    assert [(uuid, xid) for uuid, xid, _ in told] == [
        (stub_uuid(1, 2), 94),
        (stub_uuid(1, 5), 95),
        (stub_uuid(1, 2), 79),
        (stub_uuid(1, 5), 79),
    ]
    assert left == 0


def test_instance_whose_nodes_the_kernel_does_not_know_is_left_out_with_its_gpu(
    program: Program, tmp_path: Path, golden: Golden
) -> None:
    mig_files(tmp_path)
    text = (
        "here = Path()\n"
        "caps = Capabilities(here / 'devices', here / 'minors', here / 'caps')\n"
        "show([gpu.uuid for gpu in NvmlDriver(mig_instances=True, capabilities=caps).gpus()])"
    )
    done = program(text, {"count": 2, "gpu.1.mig": 1, "gpu.1.slot.0": "7:0"})
    assert shown(done) == [[stub_uuid(0)]]
    assert done.stderr == golden


def test_gpu_in_mig_mode_without_instances_counts_none(program: Program, golden: Golden) -> None:
    text = "show(len(NvmlDriver(mig_instances=True).gpus()))"
    done = program(text, {"count": 1, "gpu.0.mig": 1})
    assert shown(done) == [0]
    assert done.stderr == golden


def test_instances_need_a_driver_that_names_them_lastingly(program: Program, golden: Golden) -> None:
    text = "show(len(NvmlDriver(mig_instances=True).gpus()))"
    done = program(text, {"count": 2, "gpu.0.mig": 1, "gpu.0.slot.0": "7:0", "driver": "460.106.00"})
    assert shown(done) == [1]
    assert done.stderr == golden


def test_instance_that_is_taken_apart_is_told_alone(program: Program, tmp_path: Path, golden: Golden) -> None:
    mig_files(tmp_path)
    answers: dict[str, object] = {"count": 2, **EVERY_GPU_REPORTS}
    answers |= {"gpu.1.minor": 4, "gpu.1.mig": 1, "gpu.1.slot.2": "7:0", "gpu.1.slot.5": "9:1"}
    done = program(WATCH + "change(gpu__1__slot__5='gone')\nnext_event()\nend()\nshow(events.qsize())", answers)
    assert shown(done) == [[stub_uuid(1, 5), None, golden], 0]


def test_gpu_that_was_lost_after_it_was_listed_is_told(program: Program) -> None:
    text = """
driver = NvmlDriver()
show(len(driver.gpus()))
change(gpu__1__error=15)
events = queue.Queue()
end = driver.watch_health(events.put)
show(events.get(timeout=60).uuid)
end()
"""
    assert shown(program(text, {"count": 2, **EVERY_GPU_REPORTS})) == [2, stub_uuid(1)]


def test_gpu_that_comes_back_is_listened_to_again(program: Program) -> None:
    done = program(
        WATCH
        + f"""
change(gpu__0__error=15, wait_error=15)
next_event()
change(gpu__0__error=0, wait_error=0, event__0='0:8:48:{WHOLE}:{WHOLE}')
next_event()
end()
""",
        {"count": 1, **EVERY_GPU_REPORTS},
    )
    assert [xid for _, xid, _ in shown(done)] == [None, 48]
