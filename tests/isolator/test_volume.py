from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.gpu.make import SIMULATED_VERSION
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator.driver_tree import gpu_table
from mesos_gpu.isolator.elf import read_library
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from mesos_gpu.isolator.volume import NvidiaVolume
from tests.support import places
from tests.support.driver_machine import VERSION, usual_machine
from tests.support.golden import Golden
from tests.support.gpu_records import records_in


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
        "bin/nvidia-smi-use": "0o755",
        "gpus": "0o644",
        "lib": "0o755",
        "lib64": "0o755",
        "links": "0o644",
        "lib64/libcuda.so": "0o755",
        "lib64/libcuda.so.1": "0o755",
        "lib64/libnvidia-ml.so.1": "0o755",
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


def test_other_gpus_replace_the_tables_whole_and_nothing_else(tmp_path: Path) -> None:
    before = contents(create(tmp_path, 2))
    volume = create(tmp_path, 3)
    after = contents(volume)
    assert {path for path in after if after[path] != before[path]} - {"."} == {"gpus", "links"}
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
    assert volume.plan(image=False) == LaunchPlan(
        search_paths={
            "PATH": (f"{volume.host_path}/bin",),
            "LD_LIBRARY_PATH": (f"{volume.host_path}/lib", f"{volume.host_path}/lib64"),
        }
    )


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
        cwd=places.ROOT,
    )
    assert done.stderr == ""
    version, mounts = done.stdout.splitlines()
    assert "simulated" in version
    assert mounts == "1", "the second run finds the first one's mount"
    assert list(tmp_path.iterdir()) == [], "all of it was in a mount namespace that is gone"


def test_filesystem_that_forbids_execution_without_root_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("mesos_gpu.base.linux.libc.mount", refused)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    with pytest.raises(Unavailable) as refused:
        create(tmp_path)
    assert str(refused.value) == golden


class RealDriver(NullDriver):
    """An NVIDIA driver as far as its files go."""

    kind = "nvml"

    def __init__(self, version: str = VERSION) -> None:
        self.version = version


def create_real(directory: Path, root: Path, version: str = VERSION) -> NvidiaVolume:
    volume = NvidiaVolume.create(directory, RealDriver(version), root=root)
    assert volume is not None
    return volume


def test_volume_of_a_real_driver_has_its_programs_and_libraries(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    assert volume.host_path == tmp_path / "volumes" / f"nvidia_{VERSION}"
    assert subprocess.check_output([volume.host_path / "bin" / "nvidia-smi"]) == b"nvidia-smi\n"
    library = volume.host_path / "lib64" / "libcuda.so"
    assert library.resolve() == volume.host_path / "lib64" / f"libcuda.so.{VERSION}"
    assert read_library(library) is not None
    assert (volume.host_path / "lib" / "libcuda.so.1").exists()


def test_an_upgrade_of_the_driver_makes_a_new_volume_and_removes_the_unused_one(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    old = create_real(tmp_path / "volumes", tmp_path / "host")
    usual_machine(tmp_path / "host", "560.1.2")
    new = create_real(tmp_path / "volumes", tmp_path / "host", "560.1.2")
    assert (new.host_path / "lib64" / "libcuda.so.560.1.2").exists()
    assert not (new.host_path / "lib64" / f"libcuda.so.{VERSION}").exists(), "a rest of the old driver"
    assert records_in(tmp_path / "volumes") == [new.host_path.name]
    assert old.host_path != new.host_path


def test_an_earlier_volume_stays_while_a_process_uses_it(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    old = create_real(tmp_path / "volumes", tmp_path / "host")
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{old.host_path}/lib64"}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        try:
            create_real(tmp_path / "volumes", tmp_path / "host", "560.1.2")
            assert old.host_path.exists()
        finally:
            process.kill()
    create_real(tmp_path / "volumes", tmp_path / "host", "560.1.2")
    assert not old.host_path.exists()


def test_a_file_that_the_driver_replaced_is_kept_for_those_who_use_it(tmp_path: Path) -> None:
    machine = usual_machine(tmp_path / "host")
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    kept = (volume.host_path / "bin" / "nvidia-smi").stat()
    original = machine.path("/usr/bin/nvidia-smi")
    original.unlink()
    assert (volume.host_path / "bin" / "nvidia-smi").stat().st_ino == kept.st_ino


def test_a_missing_or_damaged_file_comes_back(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    whole = contents(volume)
    library = volume.host_path / "lib64" / f"libcuda.so.{VERSION}"
    library.unlink()
    (volume.host_path / "lib64" / "libcuda.so").unlink()
    damaged = volume.host_path / "lib64" / f"libnvidia-ml.so.{VERSION}"
    damaged.unlink()
    damaged.write_bytes(b"half")
    create_real(tmp_path / "volumes", tmp_path / "host")
    assert contents(volume).keys() == whole.keys()
    assert read_library(library) is not None
    assert read_library(damaged) is not None


def test_a_build_that_died_is_begun_anew(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    half = tmp_path / "volumes" / f".nvidia_{VERSION}" / "lib64"
    half.mkdir(parents=True)
    (half / "libcuda.so.1").touch()
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    assert records_in(tmp_path / "volumes") == [volume.host_path.name]
    assert (volume.host_path / "lib64" / "libcuda.so.1").is_symlink()


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual_machine(tmp_path / "host")
    before = Path.symlink_to

    def full(self: Path, target: str) -> None:
        if "libnvidia-nvvm" in target:
            raise OSError(28, "No space left on device")
        before(self, target)

    monkeypatch.setattr(Path, "symlink_to", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        create_real(tmp_path / "volumes", tmp_path / "host")
    assert records_in(tmp_path / "volumes") == []


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    machine = usual_machine(tmp_path / "host")
    monkeypatch.setattr(Path, "hardlink_to", refused)
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    copied, original = volume.host_path / "bin" / "nvidia-smi", machine.path("/usr/bin/nvidia-smi")
    assert copied.read_bytes() == original.read_bytes()
    assert copied.stat().st_ino != original.stat().st_ino
    assert copied.stat().st_mode & 0o777 == 0o755


def test_without_image_the_real_drivers_volume_brings_its_libraries_too(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    volume = create_real(tmp_path / "volumes", tmp_path / "host")
    assert not volume.is_nowhere_else
    assert volume.plan(image=False).search_paths == {
        "PATH": (f"{volume.host_path}/bin",),
        "LD_LIBRARY_PATH": (f"{volume.host_path}/lib", f"{volume.host_path}/lib64"),
    }


def test_threads_that_build_one_volume_at_once_all_get_it_whole(tmp_path: Path) -> None:
    driver, failures, begin = SimulatedDriver(2), list[BaseException](), threading.Barrier(4)

    def build() -> None:
        for number in range(10):
            begin.wait()
            try:
                volume = NvidiaVolume.create(tmp_path / str(number), driver)
                assert volume is not None
                assert (volume.host_path / "bin" / "nvidia-smi").is_file()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
