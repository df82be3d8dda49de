"""The compiled codec against Python's way: what it takes is the same to the bit, and all else it leaves alone."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.message_types import message_class, pool
from mesos_gpu.mesos.resource import Document
from tests.support.mesos_documents import ENVELOPES, ODD, RECORDED, TYPES, document_of, integers, spoiled

pytestmark = pytest.mark.usefixtures("compiled_codec")

DRAIN = "mesos.v1.master.Call.DrainAgent"
"""The one type with a part that is not Mesos' own."""
Wire = tuple[int, int, bytes]
"""A field as it is on the wire: number, wire type, what follows the tag."""


def in_python(work: Callable[..., Any], *arguments: Any) -> Any:
    """What Python makes of it without the compiled codec; None if it refuses it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "TABLE", None)
        try:
            return work(*arguments)
        except ProtocolError:
            return None


def shown(value: Any) -> Any:
    """A value with its class, as True and 1 and 1.0 are the same to Python."""
    return value.__class__.__name__, repr(value)


def ordered(type_name: str, v1: bool, document: Document) -> Any:
    """A document with the class of each value, and in order, but for the entries of maps, which have none."""
    fields = {field.number: field for field in pool().FindMessageTypeByName(type_name).fields}
    by_name = {name: fields[number] for number, name, *_ in compiled.rows(type_name, v1) if number in fields}
    found = []
    for name, value in document.items():
        inner = by_name[name].message_type
        if inner is None:
            found.append((name, list(map(shown, value)) if isinstance(value, list) else shown(value)))
        elif inner.GetOptions().map_entry:
            entries = (ordered(inner.full_name, v1, {"key": key, "value": one}) for key, one in value.items())
            found.append((name, sorted(entries, key=repr)))
        else:
            parts = value if isinstance(value, list) else (value,)
            found.append((name, value.__class__, [ordered(inner.full_name, v1, part) for part in parts]))
    return found


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def on_wire(fields: list[Wire]) -> bytes:
    return b"".join(varint(number << 3 | kind) + payload for number, kind, payload in fields)


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


@st.composite
def wire_of(draw: st.DrawFn, type_name: str, depth: int = 3) -> bytes:
    """Bytes that look like a message of a type: its fields in any order and number, now and then in another form."""
    fields = list(pool().FindMessageTypeByName(type_name).fields)
    chosen: list[FieldDescriptor] = [field for field in fields if field.is_required]
    if fields:
        chosen += draw(st.lists(st.sampled_from(fields), max_size=4))
    if draw(st.booleans()):
        chosen.sort(key=lambda field: field.number)
    written: list[Wire] = []
    for field in chosen:
        kind, payload = 0, varint(draw(st.integers(0, 3) | st.integers(0, 2**64 - 1)))
        if field.message_type is not None:
            inner = field.message_type.full_name
            kind, payload = 2, sized(draw(wire_of(inner, depth - 1)) if depth else b"")
        elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            kind, payload = 2, sized(draw(st.text(max_size=4).map(str.encode) | st.binary(max_size=4)))
        elif field.type == FieldDescriptor.TYPE_DOUBLE:
            kind, payload = 1, draw(st.binary(min_size=8, max_size=8))
        elif field.cpp_type in integers:
            number = draw(integers[field.cpp_type])
            payload = varint(number % 2**64)
        if draw(st.integers(0, 20)) == 0:
            kind = draw(st.integers(0, 7))
        written.append((field.number, kind, payload))
    if draw(st.integers(0, 5)) == 0:
        unknown = draw(st.sampled_from([(99, 2, b"\x01x"), (62, 0, b"\x05"), (200, 3, b""), (19, 5, b"1234")]))
        written.insert(draw(st.integers(0, len(written))), unknown)
    return on_wire(written)


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with something in them changed, left out, put in or said twice."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(found)))
        to = draw(st.integers(at, min(len(found), at + 8)))
        how = draw(st.sampled_from(["cut", "out", "twice", "other", "bit"]))
        if how == "cut":
            del found[at:]
        elif how == "out":
            del found[at:to]
        elif how == "twice":
            found[at:at] = found[at:to]
        elif how == "other":
            found[at:to] = draw(st.binary(max_size=4))
        elif at < len(found):
            found[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(found)


def check_bytes(type_name: str, data: bytes) -> None:
    for v1, read in ((False, messages.decode), (True, messages.decode_to_v1)):
        ours = compiled.decoded(type_name, data, v1)
        if ours is not None:
            theirs = in_python(read, type_name, data)
            assert theirs is not None, "read in C, and refused in Python"
            assert ordered(type_name, v1, ours) == ordered(type_name, v1, theirs)


@given(st.data())
def test_what_python_writes_is_read_in_c(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from([name for name in TYPES if name != DRAIN]))
    wire = in_python(messages.encode, type_name, data.draw(document_of(type_name)))
    assert compiled.decoded(type_name, wire) is not None
    check_bytes(type_name, wire)


@given(st.data())
def test_bytes_in_any_state_are_read_as_in_python_or_left_to_it(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    wire = in_python(messages.encode, type_name, data.draw(document_of(type_name)))
    check_bytes(type_name, data.draw(mutated(wire)))


@given(st.data())
def test_fields_in_any_order_and_form_are_read_as_in_python_or_left_to_it(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    check_bytes(type_name, data.draw(wire_of(type_name)))


@given(st.sampled_from(TYPES), st.binary(max_size=40))
def test_any_bytes_are_read_as_in_python_or_left_to_it(type_name: str, data: bytes) -> None:
    check_bytes(type_name, data)


@given(st.data())
def test_documents_are_written_in_c_as_in_python(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    document = data.draw(document_of(type_name))
    ours = compiled.encoded(type_name, document)
    if not left_alone(document):
        assert ours is not None
    assert ours in (None, in_python(messages.encode, type_name, document))


def left_alone(value: Any) -> bool:
    """Whether Python writes something in it.

    That is a number that JSON has none for, the type that is not Mesos' own, or keys of which one begins another.
    """
    if isinstance(value, dict):
        if "max_grace_period" in value:
            return True
        keys = sorted(value)
        begins = any(after.startswith(key) for key, after in itertools.pairwise(keys))
        return (begins and not names_of_fields(keys)) or any(map(left_alone, value.values()))
    return any(map(left_alone, value)) if isinstance(value, list) else value == "Infinity"


def names_of_fields(keys: list[str]) -> bool:
    """Whether these are not the keys of a map, which are shorter here."""
    return any(len(key) > 3 for key in keys)


@given(st.data())
def test_strange_documents_are_written_as_in_python_or_left_to_it(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    document = data.draw(document_of(type_name).flatmap(spoiled))
    for v1, write in ((False, messages.encode), (True, messages.encode_from_v1)):
        ours = compiled.encoded(type_name, document, v1)
        assert ours is None or ours == in_python(write, type_name, document)


@given(st.data())
def test_v1_documents_go_into_internal_messages_as_in_python(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(ENVELOPES))
    wire = in_python(messages.encode, type_name, data.draw(document_of(type_name)))
    document = in_python(messages.decode_to_v1, type_name, wire)
    ours = compiled.encoded(type_name, document, True)
    assert ours == wire or (ours is None and left_alone(document))
    assert compiled.decoded(type_name, wire, True) == document


@given(ODD)
def test_what_is_no_document_is_left_to_python(value: Any) -> None:
    if not isinstance(value, dict):
        assert compiled.encoded("mesos.TaskID", value) is None


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: str(one["message"]).rpartition(".")[2])
def test_recorded_messages_need_no_python(recorded: dict[str, Any]) -> None:
    data = base64.b64decode(recorded["body_base64"])
    for v1 in (False, True):
        document = compiled.decoded(recorded["message"], data, v1)
        assert document is not None
        assert compiled.encoded(recorded["message"], document, v1) == data
        assert compiled.encoded(recorded["message"], json.loads(json.dumps(document)), v1) == data


def test_every_type_has_a_table_of_all_its_fields() -> None:
    table: Any = compiled.TABLE
    for type_name, v1 in itertools.product(TYPES, (False, True)):
        rows = compiled.rows(type_name, v1)
        table().fill(rows)
        fields = message_class(type_name).DESCRIPTOR.fields
        present = [row[0] for row in rows if row[2] != "absent"]
        assert present == sorted(field.number for field in fields), (type_name, v1)
        left = [row[1] for row in rows if row[2] == "other"]
        if (type_name, v1) == ("mesos.scheduler.Call.Subscribe", True):
            assert len(left) == len(fields)
        else:
            assert left == (["max_grace_period"] if type_name == DRAIN else []), (type_name, v1)


TASK_ID, LABEL, SCALAR, STATUS = "mesos.TaskID", "mesos.Label", "mesos.Value.Scalar", "mesos.TaskStatus"
SECRET = "mesos.Secret"


def nested(levels: int) -> bytes:
    found = b"\x0a\x01c"
    for _ in range(levels):
        found = b"\x0a\x01c\x12" + sized(found)
    return found


@pytest.mark.parametrize(
    ("type_name", "data"),
    [
        pytest.param(TASK_ID, b"", id="a required field that is not there"),
        pytest.param(TASK_ID, b"\x0a\x01", id="fewer bytes than it says"),
        pytest.param(TASK_ID, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", id="a length of 64 bits"),
        pytest.param(TASK_ID, b"\x0a\x01\xff", id="text that is not UTF-8"),
        pytest.param(TASK_ID, b"\x0a\x03\xed\xa0\x80", id="half of a surrogate pair"),
        pytest.param(TASK_ID, b"\x0a\x01a\x0a\x01b", id="said twice"),
        pytest.param(TASK_ID, b"\x0a\x81\x00a", id="a length written longer than it is"),
        pytest.param(TASK_ID, b"\x8a\x00\x01a", id="a tag written longer than it is"),
        pytest.param(TASK_ID, b"\x0a\x01a\x00\x01", id="a field of number 0"),
        pytest.param(TASK_ID, b"\x0a\x01a\x13\x14", id="a group"),
        pytest.param(TASK_ID, b"\x0a\x01a\x16", id="a wire type that there is not"),
        pytest.param(TASK_ID, b"\x08\x01", id="a number for a text"),
        pytest.param(TASK_ID, b"\x0a\x01a\x80\x80\x80\x80\x80\x01\x00", id="a tag of more than 32 bits"),
        pytest.param(LABEL, b"\x12\x01b\x0a\x01a", id="another order"),
        pytest.param(SCALAR, b"\x09\x00\x00\x00\x00", id="half of a number"),
        pytest.param(STATUS, b"\x0a\x03\x0a\x01t\x10\x63", id="a state that there is not"),
        pytest.param("mesos.Port", b"\x08" + b"\x80" * 9 + b"\x02", id="a number of 65 bits"),
        pytest.param("mesos.Port", b"\x08" + b"\x80" * 10 + b"\x01", id="a number of 11 bytes"),
        pytest.param("mesos.Port", b"\x08\x80\x80\x80\x80\x10", id="33 bits where there are 32"),
        pytest.param("mesos.ContainerID", nested(48), id="too deep"),
        pytest.param("mesos.ContainerID", nested(2000), id="much too deep"),
        pytest.param(DRAIN, b"\x0a\x03\x0a\x01a\x12\x00", id="a part that is not Mesos' own"),
    ],
)
def test_it_leaves_to_python(type_name: str, data: bytes) -> None:
    assert compiled.decoded(type_name, data) is None
    assert compiled.decoded(type_name, data, True) is None


def test_it_goes_as_deep_as_it_says() -> None:
    data = nested(47)
    document = compiled.decoded("mesos.ContainerID", data)
    assert document is not None
    assert in_python(messages.decode, "mesos.ContainerID", data) == document
    # What is inside comes first in another document than in bytes, as the order of names there is anybody's.
    assert compiled.encoded("mesos.ContainerID", document) == data
    assert compiled.encoded("mesos.ContainerID", {"value": "c", "parent": document}) is None


@pytest.mark.parametrize(
    ("keys", "usual"),
    [
        (["mem", "cpus", "é", "z", "disk"], True),
        (["b", "a"], True),
        (["a", ""], False),
        (["ab", "c", "a"], False),
        (["a", "a\0"], False),
        (["\ud800"], False),
    ],
)
def test_entries_of_a_map_are_written_in_the_order_of_their_keys(keys: list[str], usual: bool) -> None:
    limits = {key: {"value": float(at)} for at, key in enumerate(keys)}
    task = {"name": "t", "task_id": {"value": "t"}, "slave_id": {"value": "s"}, "limits": limits}
    ours = compiled.encoded("mesos.TaskInfo", task)
    assert ours == (in_python(messages.encode, "mesos.TaskInfo", task) if usual else None)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 95, 96, 97, 5000])
def test_bytes_are_base64_as_python_writes_it(size: int) -> None:
    data = bytes(at * 37 % 256 for at in range(size))
    wire = b"\x08\x02\x1a" + sized(b"\x0a" + sized(data))
    document = compiled.decoded(SECRET, wire)
    assert document == {"type": "VALUE", "value": {"data": base64.b64encode(data).decode()}}
    assert compiled.encoded(SECRET, document) == wire


@pytest.mark.parametrize(
    "text",
    ["AAE", "AAF=", "AB==", "AA=A", "A===", "====", "AA==AA==", "AAAA====", "_-8=", "AA\n=", "A", "ÄÄA=", "A\0A="],
)
def test_bytes_that_are_written_otherwise_are_left_to_python(text: str) -> None:
    assert compiled.encoded(SECRET, {"type": "VALUE", "value": {"data": text}}) is None


@pytest.mark.parametrize(
    "entry",
    [
        [],
        [(1, "key", "string", False, False, None)],
        [(1, "key", "string", False, False, None), (3, "value", "string", False, False, None)],
        [(1, "key", "int32", False, False, None), (2, "value", "string", False, False, None)],
        [(1, "key", "string", True, False, None), (2, "value", "string", False, False, None)],
        [(1, "key", "string", False, False, None), (2, "value", "string", True, False, None)],
        [(1, "key", "string", False, False, None), (2, "value", "other", False, False, None)],
    ],
)
def test_entries_that_are_none_of_a_map_are_left_to_python(entry: list[Any]) -> None:
    table: Any = compiled.TABLE
    map_of, of = table(), table()
    of.fill(entry)
    map_of.fill([(1, "map", "map", True, False, of), (2, "one", "map", False, False, of)])
    assert map_of.encode({"map": {"a": "b"}}) is None
    assert map_of.encode({"one": {"a": "b"}}) is None
    for number in (b"\x0a", b"\x12"):
        assert map_of.decode(number + sized(b"\x0a\x01a\x12\x01b")) is None


def test_only_bytes_are_read() -> None:
    for data in (bytearray(b"\x0a\x01t"), memoryview(b"\x0a\x01t"), "\n\x01t", None):
        assert compiled.decoded(TASK_ID, data) is None  # type: ignore[arg-type]


def test_a_type_that_is_not_there_is_told_as_ever() -> None:
    with pytest.raises(ProtocolError, match=r"there is no Mesos message mesos\.Nothing"):
        compiled.decoded("mesos.Nothing", b"")


def test_a_table_that_is_filled_stays_as_it_is() -> None:
    table: Any = compiled.TABLE
    one = table()
    assert one.decode(b"") is one
    one.fill([(1, "value", "string", False, True, None)])
    one.fill([(2, "other", "int32", False, False, None)])
    assert one.decode(b"\x0a\x01t") == {"value": "t"}
    assert one.encode({"other": 1}) is None


def test_rows_that_change_while_they_are_read_end_in_an_error() -> None:
    table: Any = compiled.TABLE
    rows: list[Any] = []

    class Required:
        def __bool__(self) -> bool:
            rows.clear()
            return True

    rows += [(number, f"name_{number}" * 9, "string", False, Required(), None) for number in (1, 2, 3)]
    with pytest.raises(IndexError):
        table().fill(rows)


@pytest.mark.parametrize(
    "rows",
    [
        None,
        (),
        [None],
        [()],
        [(1,)],
        [(0, "a", "bool", False, False, None)],
        [(64, "a", "bool", False, False, None)],
        [(2**64, "a", "bool", False, False, None)],
        [(1, b"a", "bool", False, False, None)],
        [(1, "a", "flavour", False, False, None)],
        [(1, "a", "message", False, False, None)],
        [(1, "a", "map", True, False, "Table")],
        [(1, "a", "enum", False, False, None)],
        [(1, "a", "enum", False, False, {"A": -1})],
        [(1, "a", "enum", False, False, {"A": 2**31})],
        [(1, "a", "enum", False, False, {"A": 1, "B": 1})],
        [(1, "a", "enum", False, False, {1: 1})],
        [(1, "a", "bool", False, False, None), (1, "b", "bool", False, False, None)],
        [(2, "a", "bool", False, False, None), (1, "b", "bool", False, False, None)],
        [(1, "a", "bool", False, False, None), (2, "a", "bool", False, False, None)],
        [(1, "a", "bool", False, False, None)] * 64,
    ],
)
def test_rows_that_say_no_type_are_refused(rows: Any) -> None:
    table: Any = compiled.TABLE
    one = table()
    with pytest.raises((ValueError, TypeError, OverflowError)):
        one.fill(rows)
    assert one.decode(b"") is one
