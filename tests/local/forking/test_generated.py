"""Functions of dataclasses that are kept: the same classes, compiled once."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import py_compile
import sys
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.local.forking import generated
from mesos_gpu.local.forking.generated import kept


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(generated, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "a_module_of_ours.py"
    path.write_text("")
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that are compiled."""
    texts: list[str] = []

    def compiling(text: str, *words: Any, **more: Any) -> Any:
        texts.append(text)
        return compile(text, *words, **more)

    monkeypatch.setattr(generated, "compile", compiling, raising=False)
    return texts


def define(source: Path) -> type[Any]:
    with kept(source.stem):

        @dataclasses.dataclass(frozen=True, order=True)
        class Point:
            x: int
            y: float = 0.5

    return Point


def kept_file(source: Path) -> Path:
    (path,) = (source.parent / "__pycache__").glob("*.opt-dataclasses.pyc")
    return path


def test_a_class_is_the_same_with_what_was_kept_and_nothing_is_compiled_again(
    source: Path, compiled: list[str]
) -> None:
    first = define(source)
    count = len(compiled)
    assert count > 4
    second = define(source)
    assert len(compiled) == count
    for point in (first, second):
        assert repr(point(1)) == "define.<locals>.Point(x=1, y=0.5)"
        assert point(1) == point(1, 0.5) < point(2)
        assert hash(point(1)) == hash(point(1))
        with pytest.raises(dataclasses.FrozenInstanceError):
            point(1).x = 2
    plain = dataclasses.make_dataclass("Point", [("x", "int"), ("y", "float", 0.5)], frozen=True, order=True)
    assert str(inspect.signature(second)) == str(inspect.signature(plain))
    assert second.__init__.__annotations__ == plain.__init__.__annotations__


def test_dataclasses_are_as_they_were_afterwards_even_when_a_module_fails(source: Path) -> None:
    with pytest.raises(ZeroDivisionError), kept(source.stem):
        raise ZeroDivisionError
    assert "exec" not in vars(dataclasses)
    assert builtins.exec is exec


@pytest.mark.parametrize(
    "left", [b"", b"no code at all", generated.MAGIC_NUMBER, generated.MAGIC_NUMBER + b"i\1\0\0\0"]
)
def test_what_cannot_be_read_is_made_anew(source: Path, compiled: list[str], left: bytes) -> None:
    define(source)
    good = kept_file(source).read_bytes()
    kept_file(source).write_bytes(left)
    compiled.clear()
    define(source)
    assert compiled
    assert len(kept_file(source).read_bytes()) == len(good)


def test_nothing_is_written_where_python_writes_no_modules(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "dont_write_bytecode", True)
    define(source)
    assert not (source.parent / "__pycache__").exists()


def test_nothing_is_written_beside_modules_that_a_package_brought_compiled(source: Path) -> None:
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    define(source)
    assert list((source.parent / "__pycache__").glob("*.opt-dataclasses.pyc")) == []


def test_a_folder_that_cannot_be_written_to_is_no_problem(source: Path) -> None:
    (source.parent / "__pycache__").write_text("in the way")
    assert define(source)(1).x == 1
