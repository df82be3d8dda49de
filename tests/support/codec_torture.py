"""Messages of all types through the compiled codec: whole, cut off and spoiled, and documents alike.

    python -m tests.support.codec_torture FOLDER SEED ROUNDS

FOLDER has the codec to use, such as one that was compiled with sanitizers, which end this program at the first byte
that is none of its own. It prints how many messages were read in C and how many left to Python, the same of documents,
and how many failures of memory were told; what differs from Python's way raises.
"""

from __future__ import annotations

import base64
import copy
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.resource import Document
from mesos_gpu.native import TABLE
from tests.support.mesos_documents import TYPES

BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
STRANGE: list[Any] = [
    None,
    True,
    -1,
    2**64,
    1.5,
    "x",
    "\ud800",
    "AA==",
    "====",
    b"x",
    [],
    [None],
    {},
    {"a": 1},
    (1,),
    object(),
]


def value_of(chance: random.Random, field: FieldDescriptor, depth: int) -> Any:
    if field.message_type is not None:
        duration = field.message_type.full_name == "google.protobuf.Duration"
        return "5s" if duration else document_of(chance, field.message_type.full_name, depth - 1)
    if field.enum_type is not None:
        return chance.choice(sorted(field.enum_type.values_by_name))
    if field.cpp_type in BITS:
        return chance.randint(*BITS[field.cpp_type]) >> chance.randrange(64)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return chance.choice([0.0, 1.5, -1e300, 1, "NaN", "Infinity"])
    size = chance.choice([0, 1, 2, 3, 5, 30, 200, 3000])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(chance.randbytes(size)).decode()
    return "".join(chance.choice("aß€😀") for _ in range(size))


def document_of(chance: random.Random, type_name: str, depth: int = 4) -> Document:
    """A document that fits a type."""
    document = {}
    for field in pool().FindMessageTypeByName(type_name).fields:
        if not field.is_required and (depth < 1 or chance.random() > 0.3):
            continue
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            of = entry.fields_by_name["value"]
            keys = ["", "a", "b", "ab", "ä", "k" * 50][: chance.randrange(7)]
            document[field.name] = {key: value_of(chance, of, depth) for key in keys}
        elif field.is_repeated:
            document[field.name] = [value_of(chance, field, depth) for _ in range(chance.randrange(4))]
        else:
            document[field.name] = value_of(chance, field, depth)
    return document


def spoil(chance: random.Random, document: Document) -> None:
    at: Any = document
    while isinstance(at, dict) and at:
        name = chance.choice(list(at))
        if chance.random() < 0.4 or not isinstance(at[name], dict):
            at[name] = chance.choice(STRANGE)
            return
        at = at[name]


def mutated(chance: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(found))
        to = min(len(found), at + chance.randrange(6))
        match chance.randrange(5):
            case 0:
                del found[at:]
            case 1:
                del found[at:to]
            case 2:
                found[at:at] = found[at:to]
            case 3:
                found[at:to] = chance.randbytes(chance.randrange(4))
            case _ if at < len(found):
                found[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, found[at] ^ 1 << chance.randrange(8)])
    return bytes(found)


def in_python(work: Callable[..., Any], *arguments: Any) -> Any:
    """What Python makes of it without the compiled codec; None if it refuses it."""
    compiled.TABLE = None
    try:
        return work(*arguments)
    except ProtocolError:
        return None
    finally:
        compiled.TABLE = TABLE


class Torture:
    """Counts what was done in C, and what was left alone."""

    def __init__(self) -> None:
        self.read = self.unread = self.written = self.unwritten = 0

    def bytes_in(self, type_name: str, data: bytes, v1: bool) -> None:
        document = compiled.decoded(type_name, data, v1)
        if document is None:
            self.unread += 1
            return
        self.read += 1
        assert document == in_python(messages.decode_to_v1 if v1 else messages.decode, type_name, data), (
            type_name,
            data,
        )

    def document_in(self, type_name: str, document: Document, v1: bool) -> None:
        data = compiled.encoded(type_name, document, v1)
        if data is None:
            self.unwritten += 1
            return
        self.written += 1
        written = in_python(messages.encode_from_v1 if v1 else messages.encode, type_name, document)
        assert data == written, (type_name, document)


def without_memory(work: Callable[[], Any]) -> int:
    """Do something while one allocation fails, each in turn; return how many failures were told."""
    try:
        from _testcapi import remove_mem_hooks, set_nomemory  # type: ignore[import-not-found]
    except ImportError:  # Debian has it in a package of its own
        return 0
    work()
    told, failed = 0, True
    while failed and told < 500:
        set_nomemory(told, told + 1)
        try:
            work()
            failed = False
        except MemoryError:
            told += 1
        finally:
            remove_mem_hooks()
    return told


def every_way(type_name: str, document: Document, data: bytes) -> list[Callable[[], Any]]:
    """What may run out of memory: reading, writing, and what a type's table is filled with."""
    made: Any = TABLE
    rows = compiled.rows(type_name, False)
    return [
        lambda: compiled.decoded(type_name, data),
        lambda: compiled.encoded(type_name, document),
        lambda: made().fill(rows),
    ]


def main(folder: str, seed: str, rounds: str) -> None:
    """Do it."""
    assert TABLE is not None
    assert Path(sys.modules["mesos_gpu_codec"].__file__ or "").parent == Path(folder)
    chance, torture, told = random.Random(int(seed)), Torture(), 0
    for number in range(int(rounds)):
        for type_name in TYPES:
            document = document_of(chance, type_name)
            data = in_python(messages.encode, type_name, document)
            if number == 0:
                told += sum(map(without_memory, every_way(type_name, document, data)))
            spoiled = copy.deepcopy(document)
            spoil(chance, spoiled)
            for v1 in (False, True):
                torture.bytes_in(type_name, data, v1)
                torture.bytes_in(type_name, mutated(chance, data), v1)
                torture.bytes_in(type_name, data[: chance.randint(0, len(data))], v1)
                torture.document_in(type_name, document, v1)
                torture.document_in(type_name, spoiled, v1)
    print(torture.read, torture.unread, torture.written, torture.unwritten, told)


if __name__ == "__main__":
    main(*sys.argv[1:])
