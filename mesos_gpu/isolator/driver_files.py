"""Which files of a driver containers need: tables, as data. Pure.

Sources: libnvidia-container `src/nvc_info.c` for the names by capability; Mesos
src/slave/containerizer/mesos/isolators/gpu/volume.cpp for what is left out. A library is named by the
stem of its SONAME: `libcuda` is `libcuda.so`, `libcuda.so.1` and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

BINARIES: Mapping[str, tuple[str, ...]] = {
    "utility": ("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nv-fabricmanager"),
    "compute": ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
}
"""Never: nvidia-modprobe, nvidia-settings, nvidia-xconfig, which configure the host."""

LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "utility": ("libnvidia-ml", "libnvidia-cfg", "libnvidia-nscq"),
    "compute": (
        *("libcuda", "libcudadebugger", "libnvidia-opencl", "libnvidia-gpucomp", "libnvidia-ptxjitcompiler"),
        *("libnvidia-fatbinaryloader", "libnvidia-allocator", "libnvidia-compiler", "libnvidia-pkcs11"),
        *("libnvidia-pkcs11-openssl3", "libnvidia-nvvm", "libnvidia-nvvm70", "libnvidia-tileiras"),
    ),
    "video": ("libvdpau_nvidia", "libnvidia-encode", "libnvidia-opticalflow", "libnvcuvid"),
    "graphics": (
        *("libnvidia-eglcore", "libnvidia-glcore", "libnvidia-tls", "libnvidia-glsi", "libnvidia-fbc"),
        *("libnvidia-ifr", "libnvidia-rtcore", "libnvoptix", "libGLX_nvidia", "libEGL_nvidia", "libGLESv2_nvidia"),
        *("libGLESv1_CM_nvidia", "libnvidia-glvkspirv", "libnvidia-cbl"),
        *("libGL", "libEGL", "libGLESv1_CM", "libGLESv2"),
    ),
    "ngx": ("libnvidia-ngx",),
}
CAPABILITIES = tuple(LIBRARIES)

LINKS: Sequence[tuple[str, str]] = (
    ("libcuda.so", "libcuda.so.1"),
    ("libGLX_indirect.so.0", "libGLX_nvidia.so.0"),
    ("libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"),
    ("gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
)
"""Names that programs open beside the SONAME: the link, and what it points to where that is there."""

ONLY_IF_NVIDIAS = frozenset({"libGL", "libEGL", "libGLESv1_CM", "libGLESv2"})
"""Names that other drivers have too; ours is the one that needs what NVIDIA_NEEDS says."""
NVIDIA_NEEDS = ("libGLdispatch.so", "libnvidia-gl", "libnvidia-egl")

TLS, TLS_ABI = "libnvidia-tls", (2, 3, 99)
"""The one of two libraries of that name which is for threads of today's kernels (ELF ABI note)."""

LIBRARY_FOLDERS = (
    *("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current"),
    *("/usr/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu/nvidia/current"),
    *("/usr/lib32", "/usr/lib/i386-linux-gnu", "/usr/lib/i386-linux-gnu/nvidia/current", "/usr/lib", "/lib64"),
    *("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/home/kubernetes/bin/nvidia/lib64"),
)
"""Where libraries lie on hosts without a useful ld.so.cache."""


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What one library file says of itself. `needed` are the SONAMEs it loads; `abi` the oldest kernel it is for."""

    bits: int
    soname: str | None = None
    needed: tuple[str, ...] = ()
    abi: tuple[int, int, int] | None = None


def stem(name: str) -> str:
    """Return `libcuda` for `libcuda.so.1`."""
    return name.partition(".so")[0]


def wanted_libraries(capabilities: Collection[str]) -> frozenset[str]:
    """Return the stems of the libraries of these capabilities; video needs those of compute too."""
    chosen = {*capabilities, "compute"} if "video" in capabilities else set(capabilities)
    return frozenset(name for capability in chosen for name in LIBRARIES.get(capability, ()))


def wanted_binaries(capabilities: Collection[str]) -> tuple[str, ...]:
    """Return the names of the programs of these capabilities."""
    return tuple(name for capability in BINARIES if capability in capabilities for name in BINARIES[capability])


def is_drivers(name: str, facts: LibraryFacts, version: str) -> bool:
    """Return whether the library file `name` belongs to the driver of that version, and containers can use it.

    A file of the driver ends in its version; one of another version is a rest of an earlier driver.
    """
    if stem(name) in ONLY_IF_NVIDIAS:
        return any(needed.startswith(NVIDIA_NEEDS) for needed in facts.needed)
    if not name.endswith(f".so.{version}"):
        return False
    return stem(name) != TLS or facts.abi == TLS_ABI
