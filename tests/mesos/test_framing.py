"""RecordIO and libprocess framing: any splitting of the bytes gives the same records."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import libprocess, recordio
from mesos_gpu.mesos.libprocess import MessageDecoder, Pid
from mesos_gpu.mesos.recordio import MAX_DIGITS, MAX_RECORD, RecordDecoder

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
