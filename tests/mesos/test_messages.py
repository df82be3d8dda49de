"""Messages against the bytes of a real master and agent."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu import native
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import documents, libprocess, message_types, messages, recordio, schema
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.codec.plans import plan_of
from mesos_gpu.mesos.descriptors import LABELS, SCALARS
from mesos_gpu.mesos.libprocess import MessageDecoder, Pid, is_message_head
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.recordio import MAX_DIGITS, MAX_RECORD, RecordDecoder
from mesos_gpu.mesos.resource import ResourceDocument
from tests.support import codec, places
from tests.support.histories import examples
from tests.support.mesos_documents import TABLES, TYPES


def test_evolve_and_devolve_rename_agents_and_reasons() -> None:
    internal = {
        "task_id": {"value": "t"},
        "state": "TASK_LOST",
        "slave_id": {"value": "S0"},
        "source": "SOURCE_SLAVE",
        "reason": "REASON_SLAVE_REMOVED",
        "uuid": base64.b64encode(bytes(range(16))).decode(),
    }
    v1 = messages.evolve("mesos.TaskStatus", internal)
    assert v1["agent_id"] == {"value": "S0"}
    assert (v1["source"], v1["reason"]) == ("SOURCE_AGENT", "REASON_AGENT_REMOVED")
    assert messages.devolve("mesos.TaskStatus", v1) == internal


def test_slave_info_evolves_to_agent_info() -> None:
    v1 = messages.evolve("mesos.SlaveInfo", {"hostname": "h", "id": {"value": "S0"}, "checkpoint": True})
    assert (v1["hostname"], v1["id"]) == ("h", {"value": "S0"})


def test_maps_and_infinities_survive() -> None:
    task = {
        "name": "t",
        "task_id": {"value": "t"},
        "agent_id": {"value": "S0"},
        "limits": {"mem": {"value": "Infinity"}},
    }
    data = messages.encode("mesos.v1.TaskInfo", task)
    assert messages.decode("mesos.v1.TaskInfo", data) == task


def test_64_bit_integers_are_numbers() -> None:
    ports = {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 31000, "end": 2**63}]}}
    assert messages.decode("mesos.v1.Resource", messages.encode("mesos.v1.Resource", ports)) == ports


@pytest.mark.parametrize(
    ("type_name", "document", "gist"),
    [
        ("mesos.v1.TaskInfo", {"name": 3}, "name"),
        ("mesos.v1.TaskInfo", {"name": "t"}, "task_id"),
        ("mesos.v1.scheduler.Call", {"type": "ACCEPT", "accept": {"offer_ids": [{}]}}, "offer_ids[0].value"),
        ("mesos.v1.scheduler.Call", [], "object"),
    ],
)
def test_check_says_what_is_wrong(type_name: str, document: object, gist: str) -> None:
    problem = messages.check(type_name, document)
    assert problem is not None
    assert gist in problem


def test_unknown_fields_are_ignored_as_in_mesos() -> None:
    assert messages.check("mesos.v1.scheduler.Call", {"type": "REVIVE", "flavour": 1}) is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b""])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.decode("mesos.internal.RunTaskMessage", data)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="NoSuchMessage"):
        messages.encode("mesos.internal.NoSuchMessage", {})


CLASSES = {
    "FrameworkID": documents.FrameworkIdDocument,
    "AgentID": documents.AgentIdDocument,
    "TaskID": documents.TaskIdDocument,
    "ExecutorID": documents.ExecutorIdDocument,
    "OfferID": documents.OfferIdDocument,
    "FrameworkInfo": documents.FrameworkInfo,
    "AgentInfo": documents.AgentInfo,
    "ExecutorInfo": documents.ExecutorInfo,
    "TaskInfo": documents.TaskInfo,
    "TaskStatus": documents.TaskStatus,
    "Offer": documents.OfferDocument,
    "Resource": ResourceDocument,
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_fields_of_its_message_and_requires_the_same(name: str) -> None:
    fields = pool().FindMessageTypeByName(f"mesos.v1.{name}").fields
    kind = CLASSES[name]
    assert kind.__required_keys__ | kind.__optional_keys__ == {field.name for field in fields}
    assert kind.__required_keys__ == {field.name for field in fields if field.is_required}


@pytest.mark.parametrize("info", [{"user": "u", "name": "n"}, {"user": "u", "name": "n", "id": {"value": "F-1"}}])
def test_the_id_of_a_framework_is_empty_before_it_has_one(info: documents.FrameworkInfo) -> None:
    assert documents.framework_id_of(info) == ("F-1" if "id" in info else "")


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


RECORDED: list[dict[str, Any]] = json.loads((places.RECORDED / "libprocess.json").read_text())


def bytes_of(recorded: dict[str, Any]) -> bytes:
    """The request as it went over the wire, its body in one chunk."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in recorded["headers"].items())
    body = base64.b64decode(recorded["body_base64"])
    tail = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b""
    return f"{recorded['request_line']}\r\n{headers}\r\n".encode() + tail


def name_of(recorded: dict[str, Any]) -> str:
    return str(recorded["message"]).rpartition(".")[2]


@pytest.mark.parametrize("recorded", RECORDED, ids=name_of)
def test_each_is_read_and_its_body_written_again_to_the_same_bytes(recorded: dict[str, Any]) -> None:
    data = bytes_of(recorded)
    assert is_message_head(data[: data.index(b"\r\n\r\n") + 2])
    (message,) = MessageDecoder().feed(data)
    assert message.name == recorded["message"]
    assert str(message.sender) == recorded["headers"]["Libprocess-From"]
    assert encode(message.name, decode(message.name, message.body)) == base64.b64decode(recorded["body_base64"])


@pytest.mark.parametrize("recorded", RECORDED, ids=name_of)
def test_our_request_is_the_real_one(recorded: dict[str, Any]) -> None:
    (message,) = MessageDecoder().feed(bytes_of(recorded))
    host, _, port = recorded["headers"]["Host"].partition(":")
    ours = libprocess.encode(message.sender, Pid(message.target, host, int(port)), message.name, message.body)
    head, _, body = ours.partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    assert line == recorded["request_line"]
    assert dict(header.split(": ", 1) for header in headers) == recorded["headers"]
    assert ours.endswith(body)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 40_000), max_size=40))
def test_the_whole_recording_on_one_connection_is_the_same_for_any_splitting(cuts: list[int]) -> None:
    data = b"".join(map(bytes_of, RECORDED))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    decoder = MessageDecoder()
    messages = [m for a, b in itertools.pairwise(edges) for m in decoder.feed(data[a:b])]
    assert [(m.name, base64.b64encode(m.body).decode()) for m in messages] == [
        (recorded["message"], recorded["body_base64"]) for recorded in RECORDED
    ]


cuts = st.lists(st.integers(0, 2000), max_size=12)


def pieces(data: bytes, where: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in where), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=8), cuts)
def test_recordio_yields_the_same_records_for_any_splitting(records: list[bytes], where: list[int]) -> None:
    decoder, data = RecordDecoder(), b"".join(map(recordio.encode, records))
    assert [record for piece in pieces(data, where) for record in decoder.feed(piece)] == records
    assert decoder.pending == 0


@pytest.mark.parametrize(
    "data", [b"x\n", b"-1\n", b" 3\nabc", b"\n", b"1" * (MAX_DIGITS + 1), b"%d\n" % (MAX_RECORD + 1)]
)
def test_a_bad_record_length_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        RecordDecoder().feed(data)


@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=6), cuts)
def test_messages_are_the_same_for_any_splitting(bodies: list[tuple[bytes, bool]], where: list[int]) -> None:
    sender, to = Pid("slave(1)", "127.0.0.1", 5051), Pid("master", "127.0.0.1", 5050)
    data = b"".join(
        libprocess.encode(sender, to, "mesos.internal.X", body)
        if chunked
        else b"POST /master/mesos.internal.X HTTP/1.1\r\nlibprocess-from: %b\r\nContent-Length: %d\r\n\r\n%b"
        % (str(sender).encode(), len(body), body)
        for body, chunked in bodies
    )
    decoder = MessageDecoder()
    messages = [message for piece in pieces(data, where) for message in decoder.feed(piece)]
    assert [message.body for message in messages] == [body for body, _ in bodies]
    assert all((m.sender, m.target, m.name) == (sender, "master", "mesos.internal.X") for m in messages)
    assert decoder.error is None


HEAD = b"POST /master/m HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\n"
FORMS = st.sampled_from(
    [
        *(b"Transfer-Encoding: chunked\r\n\r\n%b" % body for body in (b"2\r\nab\r\n0\r\n\r\n", b"0\r\n\r\n")),
        *(b"Transfer-Encoding: Chunked\r\n\r\n%b" % body for body in (b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n", b"00\r\n\r\n")),
        *(
            b"Transfer-Encoding: chunked\r\n\r\n%b" % body
            for body in (b" 2 ;x=1\r\nab\r\n0\r\n\r\n", b"A\r\n" + b"\r\n" * 6)
        ),
        *(b"Content-Length: %d\r\n\r\n%b" % (size, b"c" * size) for size in (0, 1, 3)),
        b"\r\n",
        b"X: %b\r\n\r\n" % (b"x" * 2000),
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4000001\r\n",
    ]
)


@given(st.lists(FORMS, max_size=6), cuts, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=2))
def test_messages_at_once_and_byte_by_byte_are_the_same_and_so_is_what_is_wrong(
    forms: list[bytes], where: list[int], spoiled: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(HEAD + form for form in forms))
    for at, byte in spoiled:
        if at < len(data):
            data[at] = byte

    def read(parts: list[bytes]) -> tuple[list[libprocess.Message], str]:
        decoder = MessageDecoder(7)
        messages = [message for part in parts for message in decoder.feed(part)]
        return messages, str(decoder.error)

    slowly = read([bytes([byte]) for byte in data])
    assert read([bytes(data)]) == slowly
    assert read(pieces(bytes(data), where)) == slowly


def test_a_percent_encoded_process_id_is_decoded() -> None:
    (message,) = MessageDecoder().feed(
        b"POST /slave%281%29/mesos.internal.X HTTP/1.1\r\nUser-Agent: libprocess/master@1.2.3.4:5050\r\n\r\n"
    )
    assert (message.target, message.sender, message.body) == ("slave(1)", Pid("master", "1.2.3.4", 5050), b"")


@pytest.mark.parametrize(
    "data",
    [
        b"GET /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\n\r\n",
        b"POST /x HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\n\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: nonsense\r\n\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:99999\r\n\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nContent-Length: -3\r\n\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nContent-Length: \xb2\r\n\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        b"POST /x/y HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2000,
        b"x" * (libprocess.MAX_HEAD + 1),
    ],
)
def test_what_is_not_libprocess_is_an_error_and_nothing_follows_it(data: bytes) -> None:
    decoder = MessageDecoder()
    assert decoder.feed(data) == []
    assert decoder.error is not None
    good = libprocess.encode(Pid("a", "1.2.3.4", 5), Pid("b", "1.2.3.4", 6), "m", b"")
    assert decoder.feed(good) == []


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"POST /master/m HTTP/1.1\r\nLIBPROCESS-FROM: a@1.2.3.4:5\r\n", True),
        (b"POST /master/m HTTP/1.1\r\nUser-Agent: libprocess/a@1.2.3.4:5\r\n", True),
        (b"POST /api/v1/scheduler HTTP/1.1\r\nUser-Agent: curl\r\n", False),
        (b"GET /state HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\n", False),
    ],
)
def test_messages_are_told_from_http_by_their_head(head: bytes, message: bool) -> None:
    assert libprocess.is_message_head(head) is message


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), cuts)
def test_a_body_in_many_chunks_is_one_body(chunks: list[bytes], where: list[int]) -> None:
    head = b"POST /master/m HTTP/1.1\r\nLibprocess-From: a@1.2.3.4:5\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + b"".join(b"%X;ext=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    decoder = MessageDecoder()
    messages = [message for piece in pieces(data * 2, where) for message in decoder.feed(piece)]
    assert [message.body for message in messages] == [b"".join(chunks)] * 2
