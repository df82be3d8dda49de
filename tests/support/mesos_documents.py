"""Documents of all types of Mesos' messages, as we write them and otherwise; and what was recorded on the wire."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from mesos_gpu.mesos import messages
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.resource import Document
from tests.support import places

RECORDED: list[dict[str, Any]] = json.loads((places.RECORDED / "libprocess.json").read_text())
TABLES = json.loads((Path(messages.__file__).parent / "messages.json").read_text())
TYPES = sorted(name for form in ("internal", "v1") for name in TABLES[form]["messages"] if not name.endswith("Entry"))
# On the wire, with parts that v1 has types for.
ENVELOPES = sorted(name for name in TABLES["internal"]["messages"] if name.startswith("mesos.internal."))
DEPTH = 3
integers = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["1", "-1", "1.5", "Infinity", "NaN", "a", "5s", "\ud800", "TASK_RUNNING", "_-8"]),
    st.lists(st.none() | st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)


def value_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Duration":
            return st.integers(0, 10**6).map("{}s".format)
        return document_of(field.message_type.full_name, depth - 1)
    if field.enum_type is not None:
        return st.sampled_from(sorted(field.enum_type.values_by_name))
    if field.cpp_type in integers:
        return integers[field.cpp_type]
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return st.one_of(st.floats(allow_nan=False, allow_infinity=False, width=32), st.just("Infinity"))
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode())
    return st.text(max_size=5)


@cache
def field_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return st.dictionaries(st.text(max_size=3), value_of(entry.fields_by_name["value"], depth), max_size=2)
    one = value_of(field, depth)
    return st.lists(one, max_size=2) if field.is_repeated else one


@cache
def document_of(type_name: str, depth: int = DEPTH) -> st.SearchStrategy[Document]:
    """Documents that fit a type; below a depth only what is required."""
    fields = list(pool().FindMessageTypeByName(type_name).fields)

    @st.composite
    def documents(draw: st.DrawFn) -> Document:
        wanted = draw(st.sets(st.sampled_from(fields), max_size=4)) if fields and depth > 0 else set()
        chosen = [field for field in fields if field.is_required or field in wanted]
        return {field.name: draw(field_of(field, depth)) for field in chosen}

    return documents()


@st.composite
def spoiled(draw: st.DrawFn, document: Document) -> Document:
    """A document with one thing in it that we would not write ourselves."""
    at, path = document, draw(st.integers(0, DEPTH))
    for _ in range(path):
        inner = [value for value in at.values() if isinstance(value, dict)]
        if not inner:
            break
        at = draw(st.sampled_from(inner))
    name = draw(st.sampled_from([*at, "flavour", "taskId", "agentId"]))
    if draw(st.booleans()) and name in at:
        del at[name]
    else:
        at[name] = draw(ODD)
    return document
