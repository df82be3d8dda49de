"""The simulated nvidia-smi, run by every POSIX shell that is here over device nodes of our own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

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
    assert {len(line) for line in box if line} == {91}, "every line of the box is as wide as the next"


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
def test_topology_of_the_containers_gpus_is_a_table_as_of_the_real_one(smi: Run, dev: Path) -> None:
    give(dev, 0, 2, 3)
    done = smi("topo", "-m")
    assert (done.returncode, done.stderr) == (0, "")
    matrix, _, legend = done.stdout.partition("\n\n")
    assert [line.split("\t") for line in matrix.splitlines()] == [
        ["", "GPU0", "GPU1", "GPU2", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"],
        ["GPU0", " X ", "PHB", "PHB", "N/A", "0", "N/A"],
        ["GPU1", "PHB", " X ", "NV4", "N/A", "0", "N/A"],
        ["GPU2", "PHB", "NV4", " X ", "N/A", "0", "N/A"],
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
