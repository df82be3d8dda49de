"""A machine with an NVIDIA driver, in a folder: small ELF files, links, and the loader's cache of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

VERSION = "550.54.15"
LIB64, LIB32 = "/usr/lib/x86_64-linux-gnu", "/usr/lib/i386-linux-gnu"


def elf(
    *,
    bits: int = 64,
    soname: str | None = None,
    needed: Sequence[str] = (),
    abi: tuple[int, int, int] | None = None,
    base: int = 0x10000,
) -> bytes:
    """Return a shared library without code: program headers, a dynamic section, its strings, perhaps an ABI note."""
    wide = bits == 64
    header_size, segment_size = (64, 56) if wide else (52, 32)
    strings, entries = b"\0", []
    for tag, name in [*((1, name) for name in needed), *([(14, soname)] if soname else [])]:
        entries.append((tag, len(strings)))
        strings += name.encode() + b"\0"
    count = 2 + (abi is not None)
    dynamic_at = header_size + count * segment_size
    entry = struct.Struct("<qQ" if wide else "<iI")
    strings_at = dynamic_at + (len(entries) + 2) * entry.size
    note_at = strings_at + (len(strings) + 3) // 4 * 4
    note = b"" if abi is None else struct.pack("<III4s4I", 4, 16, 1, b"GNU\0", 0, *abi)
    dynamic = b"".join(entry.pack(*one) for one in [*entries, (5, base + strings_at), (0, 0)])
    size = note_at + len(note)

    def segment(kind: int, at: int, length: int) -> bytes:
        if wide:
            return struct.pack("<IIQQQQQQ", kind, 5, at, base + at, base + at, length, length, 1)
        return struct.pack("<IIIIIIII", kind, at, base + at, base + at, length, length, 5, 1)

    segments = segment(1, 0, size) + segment(2, dynamic_at, len(dynamic))
    if abi is not None:
        segments += segment(4, note_at, len(note))
    start = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    layout, machine = ("<HHIQQQIHHHHHH", 62) if wide else ("<HHIIIIIHHHHHH", 3)
    fields = (3, machine, 1, 0, header_size, 0, 0, header_size, segment_size, count, 0, 0, 0)
    return start + struct.pack(layout, *fields) + segments + dynamic + strings.ljust(note_at - strings_at, b"\0") + note


def loader_cache(entries: Sequence[tuple[str, str]], *, old_too: bool = False) -> bytes:
    """Return an /etc/ld.so.cache of these names and paths; `old_too` as glibc < 2.32 writes it."""
    names_at = 48 + len(entries) * 24
    strings, table = b"", b""
    for name, path in entries:
        offsets = names_at + len(strings), names_at + len(strings) + len(name) + 1
        table += struct.pack("=iIIIQ", 0x0303, *offsets, 0, 0)
        strings += name.encode() + b"\0" + path.encode() + b"\0"
    new = struct.pack("=20sII20x", b"glibc-ld.so.cache1.1", len(entries), len(strings)) + table + strings
    if not old_too:
        return new
    old = b"ld.so-1.7.0\0" + struct.pack("=I", len(entries)) + bytes(12 * len(entries))
    return old.ljust((len(old) + 7) // 8 * 8, b"\0") + new


class DriverMachine:
    """Installs libraries and programs below `root`; call `ldconfig` when done."""

    def __init__(self, root: Path, version: str = VERSION) -> None:
        self.root, self.version = root, version
        self.cache: list[tuple[str, str]] = []

    def library(
        self, stem: str, major: str = "1", *, folder: str = LIB64, version: str | None = None, **facts: object
    ) -> Path:
        """Install `stem.so.VERSION` with its SONAME link."""
        version, soname = version or self.version, f"{stem}.so.{major}"
        file = self.path(f"{folder}/{stem}.so.{version}")
        bits = 64 if folder == LIB64 else 32
        file.write_bytes(elf(**{"bits": bits, "soname": soname, **facts}))  # type: ignore[arg-type]
        if file.name != soname:
            link = file.with_name(soname)
            link.unlink(missing_ok=True)
            link.symlink_to(file.name)
        self.cache.append((soname, f"{folder}/{soname}"))
        return file

    def program(self, name: str, *, folder: str = "/usr/bin") -> Path:
        file = self.path(f"{folder}/{name}")
        file.write_text(f"#!/bin/sh\necho {name}\n")
        file.chmod(0o755)
        return file

    def ldconfig(self) -> DriverMachine:
        self.path("/etc/ld.so.cache").write_bytes(loader_cache(self.cache))
        return self

    def path(self, path: str) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


def usual_machine(root: Path, version: str = VERSION) -> DriverMachine:
    """A driver as it is installed: libraries of both widths, programs, another vendor's libGL, an old driver's rest."""
    machine = DriverMachine(root, version)
    for stem in ("libcuda", "libnvidia-ml", "libnvidia-allocator"):
        machine.library(stem)
    machine.library("libnvidia-nvvm", "4")
    machine.library("libGLX_nvidia", "0")
    machine.library("libcuda", folder=LIB32)
    machine.library("libcuda", version="470.1")
    machine.library("libnvidia-tls", f"{version}", abi=(2, 3, 99), soname=f"libnvidia-tls.so.{version}")
    machine.library("libGL", "1", version="1.7.0", needed=["libX11.so.6"])
    machine.library("libEGL", "1", version="1.1.0", needed=["libGLdispatch.so.0", "libc.so.6"])
    machine.library("libssl", "3", version="3")
    link = machine.path(f"{LIB64}/libcuda.so.1")
    link.unlink()
    link.symlink_to(f"libcuda.so.{version}")
    for name in ("nvidia-smi", "nvidia-cuda-mps-control", "nvidia-modprobe"):
        machine.program(name)
    return machine.ldconfig()
