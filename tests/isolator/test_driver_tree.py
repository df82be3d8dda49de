from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.isolator.driver_files import CAPABILITIES
from mesos_gpu.isolator.driver_tree import VolumeFile, VolumeLink, driver_tree
from tests.support.driver_machine import LIB64, VERSION, DriverMachine, usual_machine
from tests.support.golden import Golden


def paths(root: Path, capabilities: tuple[str, ...] = CAPABILITIES) -> dict[str, str]:
    """What the volume has: paths, with the target of a link and the source of a file below the root."""
    return {
        entry.path: entry.target if isinstance(entry, VolumeLink) else below(root, entry.source)
        for entry in driver_tree(root, VERSION, capabilities)
    }


def below(root: Path, source: Path | bytes) -> str:
    assert isinstance(source, Path)
    return f"/{source.resolve().relative_to(root)}"


def test_the_tree_of_a_usual_machine(tmp_path: Path) -> None:
    usual_machine(tmp_path)
    found = paths(tmp_path)
    assert found == {
        "bin/nvidia-smi": "/usr/bin/nvidia-smi",
        "bin/nvidia-cuda-mps-control": "/usr/bin/nvidia-cuda-mps-control",
        f"lib64/libcuda.so.{VERSION}": f"{LIB64}/libcuda.so.{VERSION}",
        "lib64/libcuda.so.1": f"libcuda.so.{VERSION}",
        "lib64/libcuda.so": "libcuda.so.1",
        f"lib64/libnvidia-ml.so.{VERSION}": f"{LIB64}/libnvidia-ml.so.{VERSION}",
        "lib64/libnvidia-ml.so.1": f"libnvidia-ml.so.{VERSION}",
        f"lib64/libnvidia-allocator.so.{VERSION}": f"{LIB64}/libnvidia-allocator.so.{VERSION}",
        "lib64/libnvidia-allocator.so.1": f"libnvidia-allocator.so.{VERSION}",
        "lib64/gbm/nvidia-drm_gbm.so": "../libnvidia-allocator.so.1",
        f"lib64/libnvidia-nvvm.so.{VERSION}": f"{LIB64}/libnvidia-nvvm.so.{VERSION}",
        "lib64/libnvidia-nvvm.so.4": f"libnvidia-nvvm.so.{VERSION}",
        f"lib64/libGLX_nvidia.so.{VERSION}": f"{LIB64}/libGLX_nvidia.so.{VERSION}",
        "lib64/libGLX_nvidia.so.0": f"libGLX_nvidia.so.{VERSION}",
        "lib64/libGLX_indirect.so.0": "libGLX_nvidia.so.0",
        f"lib64/libnvidia-tls.so.{VERSION}": f"{LIB64}/libnvidia-tls.so.{VERSION}",
        "lib64/libEGL.so.1.1.0": f"{LIB64}/libEGL.so.1.1.0",
        "lib64/libEGL.so.1": "libEGL.so.1.1.0",
        f"lib/libcuda.so.{VERSION}": f"/usr/lib/i386-linux-gnu/libcuda.so.{VERSION}",
        "lib/libcuda.so.1": f"libcuda.so.{VERSION}",
        "lib/libcuda.so": "libcuda.so.1",
    }


def test_only_what_a_capability_asks_for(tmp_path: Path) -> None:
    usual_machine(tmp_path)
    assert set(paths(tmp_path, ("utility",))) == {
        "bin/nvidia-smi",
        "lib64/libnvidia-ml.so.1",
        f"lib64/libnvidia-ml.so.{VERSION}",
    }


def test_absolute_links_are_read_from_the_root(tmp_path: Path) -> None:
    machine = DriverMachine(tmp_path)
    machine.library("libcuda", folder="/opt/driver", bits=64)
    machine.path(f"{LIB64}/libcuda.so.1").symlink_to("/etc/alternatives/libcuda")
    machine.path("/etc/alternatives/libcuda").symlink_to(f"../../opt/driver/libcuda.so.{VERSION}")
    machine.cache = [("libcuda.so.1", f"{LIB64}/libcuda.so.1")]
    machine.ldconfig()
    assert paths(tmp_path)[f"lib64/libcuda.so.{VERSION}"] == f"/opt/driver/libcuda.so.{VERSION}"


@pytest.mark.parametrize("cache", [None, b"", b"not a cache"])
def test_libraries_are_looked_for_where_the_cache_is_of_no_use(tmp_path: Path, cache: bytes | None) -> None:
    machine = usual_machine(tmp_path)
    if cache is None:
        machine.path("/etc/ld.so.cache").unlink()
    else:
        machine.path("/etc/ld.so.cache").write_bytes(cache)
    found = paths(tmp_path)
    assert found["lib64/libcuda.so.1"] == found["lib/libcuda.so.1"] == f"libcuda.so.{VERSION}"


def test_no_driver_files_at_all_is_said_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    assert driver_tree(tmp_path, VERSION, CAPABILITIES) == ()
    assert caplog.messages == golden


def test_links_that_go_round_and_missing_files_are_left_out(tmp_path: Path) -> None:
    machine = usual_machine(tmp_path)
    machine.path("/usr/bin/nvidia-debugdump").symlink_to("nvidia-debugdump")
    machine.cache += [("libnvidia-cfg.so.1", f"{LIB64}/libnvidia-cfg.so.1")]
    machine.ldconfig()
    found = paths(tmp_path)
    assert "bin/nvidia-debugdump" not in found
    assert not any("libnvidia-cfg" in path for path in found)


def test_programs_come_from_the_first_folder_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = usual_machine(tmp_path)
    machine.program("nvidia-smi", folder="/opt/bin")
    monkeypatch.setenv("PATH", "relative:/opt/bin:/usr/bin")
    assert paths(tmp_path)["bin/nvidia-smi"] == "/opt/bin/nvidia-smi"


def test_no_path_leaves_the_volume(tmp_path: Path) -> None:
    usual_machine(tmp_path)
    for entry in driver_tree(tmp_path, VERSION, CAPABILITIES):
        assert ".." not in entry.path.split("/")
        assert isinstance(entry, VolumeFile) or not entry.target.startswith("/")
