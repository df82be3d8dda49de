"""The compiled codec and memory: it looks at no byte that is not its own, and keeps none that it was given."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.codec import compiled
from tests.support.histories import examples
from tests.support.mesos_documents import TYPES
from tests.support.places import ROOT
from tools import make_codec

PROOF = pytest.mark.proof("native", "mesos_gpu/mesos/codec", "tools/make_codec.py")
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def sanitizer() -> str:
    """The library that has to be loaded before all others; skips the test where the compiler has none."""
    if make_codec.lacking() is not None:
        pytest.skip(str(make_codec.lacking()))
    found = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("this C compiler has no libasan")
    return found


def tortured(folder: Path, preloaded: str, rounds: int) -> subprocess.CompletedProcess[str]:
    # Python's own pools of memory would hide the end of one object in the next.
    env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "PYTHONMALLOC": "malloc", "LD_PRELOAD": preloaded}
    env |= {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    env.pop("MESOS_GPU_PURE_PYTHON", None)
    command = [sys.executable, "-m", "tests.support.codec_torture", str(folder), "1", str(rounds)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
@PROOF
@pytest.mark.timeout(900)
def test_it_looks_at_no_byte_that_is_not_its_own(tmp_path: Path) -> None:
    preloaded = sanitizer()
    make_codec.compile_codec(tmp_path, SANITIZED)
    rounds = examples(5)
    done = tortured(tmp_path, preloaded, rounds)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = [int(number) for number in done.stdout.split()]
    assert all(count > 500 * rounds for count in counted[:4]), counted


@pytest.mark.slow
@PROOF
def test_the_sanitizer_would_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the one comparison left out that keeps the reader in its message."""
    preloaded = sanitizer()
    native = tmp_path / "native"
    (native / "src").mkdir(parents=True)
    (native / "flags.txt").write_text((make_codec.NATIVE / "flags.txt").read_text())
    for path in (make_codec.NATIVE / "src").iterdir():
        text = path.read_text()
        (native / "src" / path.name).write_text(
            text.replace("(uint64_t)(reader->end - reader->at) < size", "size > 1000")
        )
    monkeypatch.setattr(make_codec, "NATIVE", native)
    make_codec.compile_codec(tmp_path, SANITIZED)
    done = tortured(tmp_path, preloaded, rounds=1)
    assert done.returncode != 0
    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in done.stderr


def growth(work: Callable[[], None]) -> int:
    """By how many blocks of memory Python has more, when something has been done many times."""
    for _ in range(20):
        work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(1000):
        work()
    gc.collect()
    return sys.getallocatedblocks() - before


UPID: dict[str, Any] = {"id": "m", "ip": 1, "port": 5050, "pid": "m@1.2.3.4:5050"}
STATUS: dict[str, Any] = {
    "task_id": {"value": "t"},
    "state": "TASK_RUNNING",
    "data": "AAE=",
    "timestamp": 1.5,
    "labels": {"labels": [{"key": "k", "value": "v"}, {"key": "l"}]},
    "healthy": True,
    "limitation": {"resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1000.0}}]},
}
TASK: dict[str, Any] = {
    "name": "t",
    "task_id": {"value": "t"},
    "slave_id": {"value": "s"},
    "limits": {"cpus": {"value": 1.5}, "mem": {"value": 2.5}},
}


@pytest.mark.usefixtures("compiled_codec")
@pytest.mark.parametrize(("type_name", "document"), [("mesos.TaskStatus", STATUS), ("mesos.TaskInfo", TASK)])
def test_it_keeps_nothing_of_messages_whole_or_cut_off_or_spoiled(type_name: str, document: dict[str, Any]) -> None:
    data = compiled.encoded(type_name, document)
    assert data is not None
    assert compiled.decoded(type_name, data) == document
    pieces = [data[:at] for at in range(len(data) + 1)]
    pieces += [data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(len(data))]
    spoiled = [
        {**document, name: strange} for name in document for strange in (object(), "\ud800", [None], 2**2000, {"x": 1})
    ]
    left = [piece for piece in pieces if compiled.decoded(type_name, piece) is None]
    assert len(left) > len(data)
    assert [one for one in spoiled if compiled.encoded(type_name, one) is None] == spoiled

    def work() -> None:
        for piece in pieces:
            compiled.decoded(type_name, piece)
        for one in spoiled:
            compiled.encoded(type_name, one)
        compiled.encoded(type_name, document)

    assert growth(work) < 50


@pytest.mark.usefixtures("compiled_codec")
def test_a_table_that_nobody_has_any_more_is_gone_with_all_that_it_held() -> None:
    table: Any = compiled.TABLE
    numbers = iter(range(10**6))

    def work() -> None:
        outer, inner = table(), table()
        # Names that nobody else has: they are kept or not.
        value, name = f"VALUE_{next(numbers)}", f"name_{next(numbers)}"
        inner.fill([(1, "back", "message", False, False, outer), (2, name, "enum", False, False, {value: 1, "B": 2})])
        outer.fill([(1, "inner", "message", False, False, inner), (3, "itself", "message", True, False, outer)])
        for rows in (
            [(1, "a" * 40, "message", False, False, inner), (1, "b", "bool", False, False, None)],
            [(1, "c", "enum", False, False, {"A": 1, "B": 1})],
            [(1, "d", "bool", False, False, None), (2, "d", "bool", False, False, None)],
        ):
            with pytest.raises(ValueError):
                table().fill(rows)
        outer.fill([(5, "again", "enum", False, False, {"A": 1})])

    assert growth(work) < 50


@pytest.mark.usefixtures("compiled_codec")
def test_every_type_is_read_without_keeping_anything() -> None:
    def work() -> None:
        for type_name in TYPES[::7]:
            compiled.decoded(type_name, b"\x0a\x02\x0a\x00\x12\x00")
            compiled.encoded(type_name, {"value": "v", "framework_id": {"value": "f"}})

    assert growth(work) < 50
