"""bpf(2), as far as device programs of cgroups need it; Python does not have it. Every call raises OSError."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.base.linux import libc
from mesos_gpu.errors import Unavailable

_SYSCALLS = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}
_LOAD, _ATTACH, _FD_BY_ID, _QUERY = 5, 8, 13, 16
_PROGRAM_TYPE, _ATTACH_TYPE = 15, 6  # BPF_PROG_TYPE_CGROUP_DEVICE, BPF_CGROUP_DEVICE
_ALLOW_MULTI, _REPLACE = 2, 4
_INSTRUCTION_BYTES, _LOG_BYTES, _MOST_PROGRAMS = 8, 1 << 16, 64
_ATTRIBUTE_BYTES = 160
"""Longer than any attribute here; the kernel wants the rest zero."""


@contextmanager
def loaded(program: bytes) -> Iterator[int]:
    """Load a device program; yield its descriptor. What the kernel's verifier says is in the error."""
    code, license_name = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    attribute = struct.pack(
        "=IIQQIIQII16sII",
        *(_PROGRAM_TYPE, len(program) // _INSTRUCTION_BYTES, ctypes.addressof(code), ctypes.addressof(license_name)),
        *(1, _LOG_BYTES, ctypes.addressof(log), 0, 0, b"mesos_gpu", 0, _ATTACH_TYPE),
    )
    try:
        descriptor, _ = _bpf(_LOAD, attribute)
    except OSError as error:
        said = log.value.decode(errors="replace")[-500:]
        raise OSError(error.errno, f"{error.strerror} {said}".strip()) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def attached(cgroup: Path) -> list[int]:
    """Return the ids of the device programs of the cgroup itself, not of those above it."""
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    with _opened(cgroup) as descriptor:
        attribute = struct.pack("=IIIIQI", descriptor, _ATTACH_TYPE, 0, 0, ctypes.addressof(ids), _MOST_PROGRAMS)
        _, answer = _bpf(_QUERY, attribute)
    count: int = struct.unpack_from("=I", answer, 24)[0]
    return list(ids[:count])


def attach(cgroup: Path, program: int, *, instead_of: int | None = None) -> None:
    """Attach a loaded program, in one step in place of the one with the id `instead_of`. Several are all asked."""
    with _opened(cgroup) as descriptor:
        if instead_of is None:
            _bpf(_ATTACH, struct.pack("=IIIII", descriptor, program, _ATTACH_TYPE, _ALLOW_MULTI, 0))
            return
        old, _ = _bpf(_FD_BY_ID, struct.pack("=III", instead_of, 0, 0))
        try:
            flags = _ALLOW_MULTI | _REPLACE
            _bpf(_ATTACH, struct.pack("=IIIII", descriptor, program, _ATTACH_TYPE, flags, old))
        finally:
            os.close(old)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _bpf(command: int, attribute: bytes) -> tuple[int, bytes]:
    """Return the call's result and the attribute, into which the kernel may have written."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise Unavailable(f"the number of bpf(2) on {platform.machine()} is not known here")
    buffer = ctypes.create_string_buffer(attribute, _ATTRIBUTE_BYTES)
    return libc.syscall("bpf", number, command, buffer, _ATTRIBUTE_BYTES), buffer.raw
