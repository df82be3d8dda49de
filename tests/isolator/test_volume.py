from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SIMULATED_VERSION, SimulatedDriver
from mesos_gpu.isolator.driver_tree import gpu_table
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from mesos_gpu.isolator.volume import NvidiaVolume


def create(directory: Path, count: int = 2) -> NvidiaVolume:
    volume = NvidiaVolume.create(directory, SimulatedDriver(count))
    assert volume is not None
    return volume


def contents(volume: NvidiaVolume) -> dict[str, tuple[int, int]]:
    """Mode and inode of everything in the volume, by path."""
    paths = [volume.host_path, *volume.host_path.rglob("*")]
    return {str(path.relative_to(volume.host_path)): (path.stat().st_mode, path.stat().st_ino) for path in paths}


def test_volume_has_the_layout_of_mesos(tmp_path: Path) -> None:
    volume = create(tmp_path)
    assert volume.host_path == tmp_path / f"nvidia_{SIMULATED_VERSION}"
    assert {path: oct(mode & 0o777) for path, (mode, _) in contents(volume).items()} == {
        ".": "0o755",
        "bin": "0o755",
        "bin/nvidia-smi": "0o755",
        "gpus": "0o644",
        "lib": "0o755",
        "lib64": "0o755",
    }


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        volume = create(tmp_path)
    finally:
        os.umask(before)
    assert all(mode & 0o004 for mode, _ in contents(volume).values())


def test_writing_again_touches_nothing(tmp_path: Path) -> None:
    before = contents(create(tmp_path))
    assert contents(create(tmp_path)) == before


def test_other_gpus_replace_the_table_whole_and_nothing_else(tmp_path: Path) -> None:
    before = contents(create(tmp_path, 2))
    volume = create(tmp_path, 3)
    after = contents(volume)
    assert {path for path in after if after[path] != before[path]} - {"."} == {"gpus"}
    assert len((volume.host_path / "gpus").read_text().splitlines()) == 1 + 3


def test_damaged_script_is_put_right(tmp_path: Path) -> None:
    volume = create(tmp_path)
    script = volume.host_path / "bin" / "nvidia-smi"
    whole = script.read_bytes()
    script.write_bytes(whole[:100])
    script.chmod(0o600)
    create(tmp_path)
    assert (script.read_bytes(), script.stat().st_mode & 0o777) == (whole, 0o755)


def test_files_of_an_earlier_run_are_kept(tmp_path: Path) -> None:
    volume = create(tmp_path)
    (volume.host_path / "lib64" / "in-use.so").touch()
    create(tmp_path)
    assert (volume.host_path / "lib64" / "in-use.so").exists()


def test_container_without_image_finds_the_programs_at_their_host_path(tmp_path: Path) -> None:
    volume = create(tmp_path)
    assert volume.plan(image=False) == LaunchPlan(search_paths={"PATH": (f"{volume.host_path}/bin",)})


def test_container_with_image_gets_the_volume_where_images_expect_it(tmp_path: Path) -> None:
    volume = create(tmp_path)
    plan = volume.plan(image=True)
    assert plan.mounts == (BindMount(str(volume.host_path), "/usr/local/nvidia", read_only=True),)
    assert plan.search_paths == {
        "PATH": ("/usr/local/nvidia/bin",),
        "LD_LIBRARY_PATH": ("/usr/local/cuda/compat", "/usr/local/nvidia/lib", "/usr/local/nvidia/lib64"),
    }


def test_path_is_absolute_whatever_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert create(Path("here")).host_path.is_absolute()


def test_without_a_driver_there_is_no_volume(tmp_path: Path) -> None:
    assert NvidiaVolume.create(tmp_path, NullDriver()) is None
    assert list(tmp_path.iterdir()) == []


def test_volume_that_cannot_be_written_is_an_error_naming_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=f"{tmp_path}/file/nvidia_"):
        create(tmp_path / "file")


def test_table_is_by_index_and_has_no_empty_field() -> None:
    gpus = [Gpu(minor=0, index=1, uuid="GPU-b", name="B"), Gpu(minor=1, index=0, uuid="GPU-a", name="A GPU")]
    assert gpu_table(gpus, "1.0").splitlines()[1:] == ["1\t0\tGPU-a\tA GPU\t-\t-\t1.0", "0\t1\tGPU-b\tB\t-\t-\t1.0"]


WHERE_NOTHING_RUNS = """
import subprocess, sys
from pathlib import Path
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import NvidiaVolume
directory = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", directory], check=True)
for _ in range(2):
    volume = NvidiaVolume.create(directory, SimulatedDriver(2))
print(subprocess.run([volume.host_path / "bin" / "nvidia-smi", "--version"], capture_output=True, check=True).stdout)
lines = Path("/proc/self/mounts").read_text().splitlines()
print(sum(str(directory) in line and "noexec" not in line for line in lines))
"""


@pytest.mark.root
def test_filesystem_that_forbids_execution_gets_one_over_it_that_does_not(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", WHERE_NOTHING_RUNS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    version, mounts = done.stdout.splitlines()
    assert "simulated" in version
    assert mounts == "1", "the second run finds the first one's mount"
    assert list(tmp_path.iterdir()) == [], "all of it was in a mount namespace that is gone"


def test_filesystem_that_forbids_execution_without_root_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *, size_mib: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("mesos_gpu.isolator.volume.mount_tmpfs", refused)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    with pytest.raises(Unavailable, match="--runtime_dir on a filesystem mounted without noexec"):
        create(tmp_path)
