"""The tables of messages' types, against the protobuf descriptors that are made of the same file."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from mesos_gpu import native
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import message_types, messages, schema
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.codec.plans import plan_of
from mesos_gpu.mesos.descriptors import LABELS, SCALARS
from mesos_gpu.mesos.message_types import pool
from tests.support import codec
from tests.support.mesos_documents import TABLES, TYPES

ENUMS = sorted(name for form in ("internal", "v1") for name in TABLES[form]["enums"])
ALL = sorted(name for form in ("internal", "v1") for name in TABLES[form]["messages"])


def default_of(field: FieldDescriptor) -> Any:
    if not field.has_default_value:
        return None
    return (
        field.default_value if field.enum_type is None else field.enum_type.values_by_number[field.default_value].name
    )


def test_every_type_has_the_fields_of_its_descriptor() -> None:
    for type_name in ALL:
        fields = schema.fields_of(type_name)
        described = pool().FindMessageTypeByName(type_name).fields
        numbered = [(field.number, field.name) for field in fields]
        assert numbered == [(field.number, field.name) for field in described], type_name
        for field, its in zip(fields, described, strict=True):
            check_field(f"{type_name}.{field.name}", field, its)


def check_field(name: str, field: schema.Field, its: FieldDescriptor) -> None:
    """Compare a row of the table with the library's descriptor; `name` is shown if they differ."""
    assert (LABELS[field.label] == 3, LABELS[field.label] == 2) == (its.is_repeated, its.is_required), name
    assert (field.default, type(field.default)) == (default_of(its), type(default_of(its))), name
    entry = its.message_type
    assert field.is_map == (entry is not None and bool(entry.GetOptions().map_entry)), name
    if entry is not None:
        assert field.type == entry.full_name, name
        assert schema.is_message(field.type) == (field.type != schema.DURATION), name
    elif its.enum_type is not None:
        assert (field.type, schema.is_enum(field.type)) == (its.enum_type.full_name, True), name
    else:
        assert SCALARS[field.type] == its.type, name


def test_every_enum_has_the_numbers_of_its_descriptor() -> None:
    for type_name in ENUMS:
        values = pool().FindEnumTypeByName(type_name).values
        assert schema.numbers_of(type_name) == {value.name: value.number for value in values}, type_name
        assert messages.enum_names(type_name) == {value.name for value in values}, type_name


def test_the_compiled_codec_has_the_names_of_every_plan() -> None:
    codec.needed()
    for type_name, v1 in itertools.product(TYPES, (False, True)):
        if (type_name, v1) == ("mesos.scheduler.Call.Subscribe", True):
            continue
        plan = plan_of(type_name, v1=v1)
        names = {row[1] for row in compiled.rows(type_name, v1)}
        assert names == {*plan._plan_writes(), *plan._absent}, (type_name, v1)


def test_a_type_that_is_not_there_is_said_as_by_the_library() -> None:
    with pytest.raises(ProtocolError, match=r"^there is no Mesos message mesos\.Nothing$"):
        schema.fields_of("mesos.Nothing")
    with pytest.raises(ProtocolError, match=r"^there is no Mesos message mesos\.Nothing$"):
        messages.field_names("mesos.Nothing")


USUAL = """
import sys
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec.shapes import read_quickly
messages.prepare()
call = read_quickly("mesos.v1.scheduler.Call", b'{"type": "REVIVE", "framework_id": {"value": "f"}}')
data = messages.encode("mesos.v1.scheduler.Call", call)
assert messages.decode("mesos.v1.scheduler.Call", data) == call
messages.with_defaults("mesos.v1.FrameworkInfo", {"user": "u", "name": "n"})
messages.devolve("mesos.TaskStatus", {"task_id": {"value": "t"}, "state": "TASK_RUNNING"})
assert "google.protobuf.message" not in sys.modules
try:
    messages.decode("mesos.TaskID", b"")
except messages.ProtocolError as error:
    print(error)
assert "google.protobuf.message" in sys.modules
"""


@pytest.mark.slow
def test_what_is_usual_needs_no_protobuf_library_and_what_is_not_finds_it() -> None:
    codec.needed()
    done = subprocess.run([sys.executable, "-c", USUAL], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("mesos.TaskID: Missing required fields: value\n", "")


def test_what_messages_take_is_read_before_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "TABLE", object())
    schema._tables.cache_clear()
    messages.prepare()
    assert schema._tables.cache_info().currsize == 1
    made: list[str] = []
    monkeypatch.setattr(message_types, "pool", lambda: made.append("the library's"))
    messages.prepare()
    assert made == []
    monkeypatch.setattr(native, "TABLE", None)
    messages.prepare()
    assert made == ["the library's"]


def test_one_v1_type_has_a_field_less_than_its_internal_form() -> None:
    lacking = {name: [field.name for field in schema.not_in_v1(name)] for name in ALL}
    assert {name: names for name, names in lacking.items() if names} == {"mesos.v1.AgentInfo": ["checkpoint"]}
