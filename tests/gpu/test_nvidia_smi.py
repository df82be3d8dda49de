"""The simulated nvidia-smi, run by every POSIX shell that is here over device nodes of our own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mesos_gpu.gpu.make import SIMULATED_VERSION, Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator.volume import NvidiaVolume

SHELLS = [shell for shell in ("sh", "dash", "busybox", "bash") if shutil.which(shell)]
DRIVER = SimulatedDriver(4)
UUIDS = [gpu.uuid for gpu in DRIVER.gpus()]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Path]:
    """A directory of nodes; none of them is left behind."""
    directory = tmp_path / "dev"
    directory.mkdir()
    yield directory
    for node in directory.iterdir():
        node.unlink()


@pytest.fixture(params=SHELLS)
def smi(request: pytest.FixtureRequest, tmp_path: Path, dev: Path) -> Run:
    volume = NvidiaVolume.create(tmp_path, DRIVER)
    assert volume is not None
    shell = ["busybox", "sh"] if request.param == "busybox" else [request.param]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*shell, str(volume.host_path / "bin" / "nvidia-smi"), *options],
            env={"PATH": os.environ["PATH"], "MESOS_GPU_DEV": str(dev)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def give(dev: Path, *minors: int) -> None:
    for minor in minors:
        os.mknod(dev / f"nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))


@pytest.mark.parametrize("options", [(), ("-L",), ("--query-gpu=index", "--format=csv"), ("-i", "0")])
def test_container_without_gpus_is_told_so_as_the_real_one_tells_it(smi: Run, dev: Path, options: tuple[str]) -> None:
    done = smi(*options)
    assert (done.returncode, done.stdout, done.stderr) == (6, "No devices were found\n", "")
    assert list(dev.iterdir()) == [], "asking for a node does not make a file"


def test_file_in_place_of_a_node_is_no_gpu(smi: Run, dev: Path) -> None:
    (dev / "nvidia0").touch()
    assert smi("-L").returncode == 6


@pytest.mark.root
def test_gpus_of_the_container_are_numbered_from_zero(smi: Run, dev: Path) -> None:
    give(dev, 1, 3)
    done = smi("-L")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"GPU 0: Simulated GPU (UUID: {UUIDS[1]})",
        f"GPU 1: Simulated GPU (UUID: {UUIDS[3]})",
    ]
    assert smi("--list-gpus").stdout == done.stdout


@pytest.mark.root
def test_table_says_that_it_is_simulated_and_has_one_box_for_each_gpu(smi: Run, dev: Path) -> None:
    give(dev, 2, 3)
    done = smi()
    assert (done.returncode, done.stderr) == (0, "")
    date, *box = done.stdout.splitlines()
    assert date.split()[0] in {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
    assert "NVIDIA-SMI (simulated)" in box[1]
    assert SIMULATED_VERSION in box[1]
    assert [line.split()[1] for line in box if "Simulated GPU" in line] == ["0", "1"]
    assert sum("0MiB / 16384MiB" in line for line in box) == 2
    assert {len(line) for line in box if line.strip()} == {91}, "every line of the box is as wide as the next"
    assert [line for line in box if not line.strip()] == [" " * 89], "as between the real one's tables"
    assert box[8] == "| N/A   30C    P0             25W /  300W |        0MiB / 16384MiB |      0%      Default |"
    assert "CUDA Version: 12.4" in box[1]


@pytest.mark.root
def test_query_prints_the_fields_in_the_order_asked(smi: Run, dev: Path) -> None:
    give(dev, 0, 2)
    fields = "index,name,uuid,memory.total,driver_version,pci.bus_id,count"
    assert smi(f"--query-gpu={fields}", "--format=csv").stdout.splitlines() == [
        "index, name, uuid, memory.total [MiB], driver_version, pci.bus_id, count",
        f"0, Simulated GPU, {UUIDS[0]}, 16384 MiB, {SIMULATED_VERSION}, 00000000:01:00.0, 2",
        f"1, Simulated GPU, {UUIDS[2]}, 16384 MiB, {SIMULATED_VERSION}, 00000000:03:00.0, 2",
    ]
    assert smi("--query-gpu=memory.total, index", "--format=csv,noheader,nounits").stdout == "16384, 0\n16384, 1\n"


@pytest.mark.root
@pytest.mark.parametrize(
    ("asked", "expected"),
    [("1", [3]), ("0,1", [1, 3]), (UUIDS[3], [3]), ("00000000:02:00.0", [1]), ("0000:02:00.0", [1])],
)
def test_id_picks_gpus_by_index_uuid_or_bus(smi: Run, dev: Path, asked: str, expected: list[int]) -> None:
    give(dev, 1, 3)
    for options in (("-i", asked), (f"--id={asked}",)):
        done = smi("--query-gpu=uuid", "--format=csv,noheader", *options)
        assert done.stdout.splitlines() == [UUIDS[minor] for minor in expected]


@pytest.mark.root
def test_gpu_of_another_container_cannot_be_picked(smi: Run, dev: Path) -> None:
    give(dev, 1)
    assert smi("-L", "-i", UUIDS[0]).returncode == 6
    assert smi("-L", "-i", "1").returncode == 6


@pytest.mark.root
@pytest.mark.parametrize(
    "options",
    [
        ("--bogus",),
        ("-i",),
        ("--query-gpu=bogus", "--format=csv"),
        ("--query-gpu=index",),
        ("--query-gpu=index", "--format=xml"),
    ],
)
def test_option_it_does_not_know_is_refused(smi: Run, dev: Path, options: tuple[str]) -> None:
    give(dev, 0)
    done = smi(*options)
    assert done.returncode == 2
    assert "nvidia-smi -h" in done.stdout


def test_help_and_version_need_no_gpu(smi: Run) -> None:
    assert "simulated" in smi("-h").stdout
    assert smi("--help").returncode == 0
    assert SIMULATED_VERSION in smi("--version").stdout


def test_missing_table_is_told(smi: Run, tmp_path: Path) -> None:
    (tmp_path / f"nvidia_{SIMULATED_VERSION}" / "gpus").unlink()
    for options in ((), ("--version",)):
        done = smi(*options)
        assert done.returncode == 9
        assert "gpus" in done.stdout


@pytest.mark.root
def test_node_that_must_not_be_opened_is_no_gpu(tmp_path: Path, dev: Path) -> None:
    volume = NvidiaVolume.create(tmp_path, DRIVER)
    assert volume is not None
    # Refused by a mount without devices, in a mount namespace that ends with the shell; a container's own
    # device cgroup is tested where containers are.
    script = 'mount -t tmpfs -o nodev none "$1" && mknod -m 666 "$1/nvidia0" c 195 0 && exec "$2" -L'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(dev), str(volume.host_path / "bin" / "nvidia-smi")],
        env={"PATH": os.environ["PATH"], "MESOS_GPU_DEV": str(dev)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (6, "No devices were found\n", "")


@pytest.mark.root
def test_fields_that_tools_ask_for_are_told_by_the_names_of_the_real_one(smi: Run, dev: Path) -> None:
    give(dev, 0)
    asked = {
        "clocks.gr": "clocks.current.graphics [MHz]=405 MHz",
        "clocks.max.sm": "clocks.max.sm [MHz]=1480 MHz",
        "power.draw": "power.draw [W]=25.00 W",
        "enforced.power.limit": "enforced.power.limit [W]=300.00 W",
        "power.min_limit": "power.min_limit [W]=150.00 W",
        "temperature.gpu": "temperature.gpu=30",
        "fan.speed": "fan.speed=[N/A]",
        "gpu_serial": f"serial={int(UUIDS[0][4:12], 16):013}",
        "pci.bus": "pci.bus=0x01",
        "pcie.link.width.current": "pcie.link.width.current=16",
        "clocks_event_reasons.active": "clocks_event_reasons.active=0x0000000000000001",
        "clocks_throttle_reasons.hw_slowdown": "clocks_throttle_reasons.hw_slowdown=Not Active",
        "ecc.errors.uncorrected.volatile.total": "ecc.errors.uncorrected.volatile.total=0",
        "compute_cap": "compute_cap=8.0",
        "utilization.jpeg": "utilization.jpeg [%]=[N/A]",
        "mig.mode.pending": "mig.mode.pending=[N/A]",
    }
    titles, values = smi(f"--query-gpu={','.join(asked)}", "--format=csv").stdout.splitlines()
    shown = zip(titles.split(", "), values.split(", "), strict=True)
    assert [f"{title}={value}" for title, value in shown] == list(asked.values())
    bare = smi("--query-gpu=power.draw,clocks.mem,fan.speed", "--format=csv,noheader,nounits").stdout
    assert bare == "25.00, 715, [N/A]\n"
    for wrong in ("memory.bogus", "power.bogus", "clocks.bogus", "utilization.bogus", "clocks_event_reasons.bogus"):
        assert smi(f"--query-gpu={wrong}", "--format=csv").returncode == 2
    assert smi("--query-compute-apps=pid,used_memory,name", "--format=csv").stdout == (
        "pid, used_gpu_memory [MiB], process_name\n"
    )


@pytest.mark.root
def test_report_is_the_same_as_text_and_as_xml(smi: Run, dev: Path) -> None:
    give(dev, 1, 3)
    done = smi("-q", "-x")
    assert (done.returncode, done.stderr) == (0, "")
    log = ElementTree.fromstring(done.stdout)
    assert [one.get("id") for one in log.findall("gpu")] == ["00000000:02:00.0", "00000000:04:00.0"]
    assert (log.findtext("cuda_version"), log.findtext("attached_gpus")) == ("12.4", "2")
    first = log.findall("gpu")[0]
    told = {
        "product_name": "Simulated GPU",
        "uuid": UUIDS[1],
        "minor_number": "1",
        "fb_memory_usage/free": "16384 MiB",
        "utilization/gpu_util": "0 %",
        "temperature/gpu_temp": "30 C",
        "gpu_power_readings/power_draw": "25.00 W",
        "clocks/sm_clock": "405 MHz",
        "pci/pci_gpu_link_info/link_widths/max_link_width": "16x",
        "mig_mode/current_mig": "N/A",
        "fan_speed": "N/A",
    }
    assert {path: first.findtext(path) for path in told} == told
    assert list(first.find("processes") or []) == []
    assert smi("-x", "-q", "-i", "1").stdout.count("<gpu id=") == 1

    text = smi("-q").stdout
    assert text.count("\nGPU 00000000:") == 2
    lines = [line.split(" : ") for line in text.splitlines() if " : " in line]
    assert all(len(before) == 41 for before, *_ in lines), "values stand one below the other"
    values = [value for _, value in lines]
    assert [one.text for one in log.iter() if len(one) == 0 and (one.text or "").endswith(" MiB")] == [
        value for value in values if value.endswith(" MiB")
    ]
    assert values.count("25.00 W") == 2


@pytest.mark.root
def test_report_of_a_name_with_marks_is_xml(smi: Run, dev: Path, tmp_path: Path) -> None:
    give(dev, 0)
    table = tmp_path / f"nvidia_{SIMULATED_VERSION}" / "gpus"
    table.write_text(table.read_text().replace("Simulated GPU", "A<B> & C"))
    assert ElementTree.fromstring(smi("-q", "-x").stdout).findtext("gpu/product_name") == "A<B> & C"


@pytest.mark.root
def test_monitor_of_processes_has_a_line_for_a_gpu_without_any(smi: Run, dev: Path) -> None:
    give(dev, 0, 1)
    head, units, *rows = smi("pmon", "-c", "2").stdout.splitlines()
    assert head.split() == ["#", "gpu", "pid", "type", "sm", "mem", "enc", "dec", "jpg", "ofa", "command"]
    assert units.startswith("# Idx")
    assert [row.split() for row in rows] == [[str(index), *["-"] * 9] for index in (0, 1, 0, 1)]
    assert smi("pmon", "-c", "x").returncode == 2


@pytest.mark.root
def test_topology_of_the_containers_gpus_is_a_table_as_of_the_real_one(smi: Run, dev: Path) -> None:
    give(dev, 0, 2, 3)
    done = smi("topo", "-m")
    assert (done.returncode, done.stderr) == (0, "")
    matrix, _, legend = done.stdout.partition("\n\n")
    near = [Path("/sys/devices/system/node/node0/cpulist"), Path("/sys/devices/system/cpu/online")]
    cpus = next((file.read_text().strip() for file in near if file.exists()), "N/A")
    assert [line.split("\t") for line in matrix.splitlines()] == [
        ["", "GPU0", "GPU1", "GPU2", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"],
        ["GPU0", " X ", "PHB", "PHB", cpus, "0", "N/A"],
        ["GPU1", "PHB", " X ", "NV4", cpus, "0", "N/A"],
        ["GPU2", "PHB", "NV4", " X ", cpus, "0", "N/A"],
    ]
    assert legend.startswith("Legend:")
    assert smi("topo").returncode == 2


@pytest.mark.root
def test_gpus_on_switches_have_all_their_links_to_each_other(tmp_path: Path, dev: Path) -> None:
    volume = NvidiaVolume.create(tmp_path / "switched", SimulatedDriver(8, make=Make(topology="dgx-a100")))
    assert volume is not None
    give(dev, *range(8))
    said = subprocess.check_output(
        [volume.host_path / "bin" / "nvidia-smi", "topo", "-m"],
        env={**os.environ, "MESOS_GPU_DEV": str(dev)},
        text=True,
    )
    rows = [line.split("\t")[1:9] for line in said.splitlines()[1:9]]
    assert rows == [["NV12" if one != other else " X " for other in range(8)] for one in range(8)]
    assert [line.split("\t")[10] for line in said.splitlines()[1:9]] == ["0", "0", "1", "1", "2", "2", "3", "3"]
