from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.isolator.driver_files import LibraryFacts
from mesos_gpu.isolator.elf import read_library
from tests.support.driver_machine import elf


@pytest.mark.parametrize("bits", [32, 64])
def test_facts_of_both_classes(tmp_path: Path, bits: int) -> None:
    facts = LibraryFacts(bits, "libGL.so.1", ("libGLdispatch.so.0", "libc.so.6"), (2, 3, 99))
    (tmp_path / "file").write_bytes(elf(bits=bits, soname=facts.soname, needed=facts.needed, abi=facts.abi))
    assert read_library(tmp_path / "file") == facts


def test_library_without_soname_needs_or_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(elf())
    assert read_library(tmp_path / "file") == LibraryFacts(64)


@pytest.mark.parametrize("data", [b"", b"/* GNU ld script */ GROUP ( libm.so.6 )", b"\x7fELF", b"\x7fELF\x09\x09"])
def test_what_is_no_library_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert read_library(tmp_path / "file") is None


WHOLE = elf(soname="libcuda.so.1", needed=["libc.so.6"], abi=(2, 3, 99))


@given(cut=st.integers(0, len(WHOLE) - 1), at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255))
def test_damage_never_raises(tmp_path_factory: pytest.TempPathFactory, cut: int, at: int, byte: int) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    for data in (WHOLE[:cut], WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]):
        path.write_bytes(data)
        read_library(path)


def test_this_machines_own_libraries_as_the_loader_lists_them() -> None:
    """The second opinion: what the dynamic loader says that our own Python needs."""
    said = subprocess.run(["ldd", sys.executable], capture_output=True, text=True, check=False).stdout
    facts = read_library(Path(sys.executable).resolve())
    assert facts is not None
    loaded = {line.split()[0] for line in said.splitlines() if "=>" in line}
    assert set(facts.needed) <= loaded
    for line in said.splitlines():
        if "=>" in line:
            name, _, path, *_ = line.split()
            library = read_library(Path(path))
            assert library is not None
            assert library.soname == name
