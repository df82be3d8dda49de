from __future__ import annotations

import pytest

from mesos_gpu.isolator.driver_files import (
    BINARIES,
    CAPABILITIES,
    LIBRARIES,
    LibraryFacts,
    is_drivers,
    stem,
    wanted_binaries,
    wanted_libraries,
)

VERSION = "550.54.15"
FACTS = LibraryFacts(64)


def test_a_capability_brings_its_own_files() -> None:
    assert wanted_libraries(["utility"]) == {"libnvidia-ml", "libnvidia-cfg", "libnvidia-nscq"}
    assert wanted_binaries(["compute"]) == ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


def test_video_brings_the_libraries_of_compute_too() -> None:
    assert "libcuda" in wanted_libraries(["video"])
    assert wanted_binaries(["video"]) == ()


def test_all_capabilities_bring_everything() -> None:
    assert wanted_libraries(CAPABILITIES) == {name for names in LIBRARIES.values() for name in names}
    assert "nvidia-modprobe" not in wanted_binaries(CAPABILITIES)
    assert set(BINARIES) <= set(CAPABILITIES)


def test_everything_that_mesos_volume_has_is_known() -> None:
    mesos = """libnvidia-ml libnvidia-cfg libnvidia-gpucomp libcuda libnvidia-opencl libnvidia-ptxjitcompiler
    libnvidia-fatbinaryloader libnvidia-compiler libvdpau_nvidia libnvidia-encode libnvcuvid libnvidia-eglcore
    libnvidia-glcore libnvidia-tls libnvidia-glsi libnvidia-fbc libnvidia-ifr libGLX_nvidia libEGL_nvidia
    libGLESv2_nvidia libGLESv1_CM_nvidia libGL libEGL libGLESv1_CM libGLESv2"""
    assert set(mesos.split()) <= wanted_libraries(CAPABILITIES)


def test_a_library_of_the_driver_ends_in_its_version() -> None:
    assert is_drivers(f"libcuda.so.{VERSION}", FACTS, VERSION)
    for name in ("libcuda.so.535.1", "libcuda.so.1", "libcuda.so", f"libcuda.so.{VERSION}1"):
        assert not is_drivers(name, FACTS, VERSION)


@pytest.mark.parametrize(
    ("needed", "ours"),
    [
        (("libGLdispatch.so.0",), True),
        (("libc.so.6", f"libnvidia-glcore.so.{VERSION}"), True),
        ((f"libnvidia-eglcore.so.{VERSION}",), True),
        (("libX11.so.6", "libglapi.so.0"), False),
        ((), False),
    ],
)
@pytest.mark.parametrize("name", ["libGL.so.1.7.0", "libEGL.so.1", "libGLESv1_CM.so.1", "libGLESv2.so.2"])
def test_a_name_that_other_vendors_have_too_is_ours_by_what_it_needs(
    name: str, needed: tuple[str, ...], ours: bool
) -> None:
    assert is_drivers(name, LibraryFacts(64, needed=needed), VERSION) is ours


def test_of_two_thread_libraries_the_one_for_todays_kernels_counts() -> None:
    name = f"libnvidia-tls.so.{VERSION}"
    assert is_drivers(name, LibraryFacts(64, abi=(2, 3, 99)), VERSION)
    assert not is_drivers(name, LibraryFacts(64, abi=(2, 2, 5)), VERSION)
    assert not is_drivers(name, FACTS, VERSION)


def test_stem() -> None:
    assert [stem(name) for name in ("libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1")] == [
        "libcuda",
        "libcuda",
        "libnvidia-ml",
    ]
