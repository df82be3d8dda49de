"""Messages per second on the wire between master and agent, beside protobuf alone on the same messages.

    ./run bench wire [--seconds 2]

The messages are recorded ones of a real master and agent (tests/recorded/libprocess.json), one of each kind, in turn.
`protobuf` parses and serializes their bytes and nothing else; `documents` takes the same bytes to plain documents, and
back; `framing` is libprocess' HTTP around them, and `message` is both, as the programs do it. `launches` are recorded
RunTaskMessages with v1 documents of master and agent in them. `msgpack` takes the same documents from bytes and back
by msgspec, compiled code that knows nothing of messages: what the Python objects alone cost.

Processor time, since other work on the machine is not ours; each is measured in turn several times, and the best of it
counts, since a ratio of two moments compares the moments. MESOS_GPU_PURE_PYTHON=1 measures what there is without the
compiled codec.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.kept import figure
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import MessageDecoder, Pid
from mesos_gpu.mesos.message_types import message_class
from mesos_gpu.mesos.messages import decode, decode_to_v1, encode, encode_from_v1
from mesos_gpu.native import TABLE

RECORDED = Path(__file__).parent.parent / "tests" / "recorded" / "libprocess.json"
SENDER, TO = Pid("slave(1)", "127.0.0.1", 5051), Pid("master", "127.0.0.1", 5050)
CHUNK = 64 * 1024
AIM = 1 / 5
"""Of protobuf alone."""
ROUNDS = 5
Messages = list[tuple[str, bytes]]
"""Names and bodies."""


def recorded() -> Messages:
    """Return one message of each kind that went over the wire: name and body."""
    found = {m["message"]: base64.b64decode(m["body_base64"]) for m in reversed(json.loads(RECORDED.read_text()))}
    return sorted(found.items())


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Return how many a second of processor time `work` does; it returns how many it did."""
    work()
    done, begin = 0, time.process_time()
    while (taken := time.process_time() - begin) < seconds:
        for _ in range(20):
            done += work()
    return done / taken


Row = tuple[str, Callable[[], int], Callable[[], int]]
"""What is measured, on the way in and on the way out; each returns how many messages it did."""


def protobuf_alone(messages: Messages) -> Row:
    classes = [(message_class(name), body) for name, body in messages]
    parsed = [kind.FromString(body) for kind, body in classes]

    def decoded() -> int:
        for kind, body in classes:
            kind.FromString(body)
        return len(classes)

    def encoded() -> int:
        for message in parsed:
            message.SerializeToString()
        return len(parsed)

    return "protobuf alone", decoded, encoded


def framing_alone(messages: Messages, pieces: list[bytes]) -> Row:
    def framed() -> int:
        decoder = MessageDecoder()
        return sum(len(decoder.feed(piece)) for piece in pieces)

    def unframed() -> int:
        for name, body in messages:
            libprocess.encode(SENDER, TO, name, body)
        return len(messages)

    return "framing alone", framed, unframed


def documents_alone(messages: Messages) -> Row:
    plain = [(name, decode(name, body)) for name, body in messages]

    def decoded() -> int:
        for name, body in messages:
            decode(name, body)
        return len(messages)

    def encoded() -> int:
        for name, document in plain:
            encode(name, document)
        return len(plain)

    return "documents alone", decoded, encoded


def documents(messages: Messages, pieces: list[bytes]) -> Row:
    plain = [(name, decode(name, body)) for name, body in messages]

    def decoded() -> int:
        decoder = MessageDecoder()
        got = [message for piece in pieces for message in decoder.feed(piece)]
        for message in got:
            decode(message.name, message.body)
        return len(got)

    def encoded() -> int:
        for name, document in plain:
            libprocess.encode(SENDER, TO, name, encode(name, document))
        return len(plain)

    return "message to document, and back", decoded, encoded


def _plain(value: object) -> object:
    """Return `value` in what any codec takes."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def msgpack(messages: Messages) -> Row:
    plain = [_plain(decode(name, body)) for name, body in messages]
    packed = [msgspec.msgpack.encode(document) for document in plain]
    unpack, pack = msgspec.msgpack.Decoder().decode, msgspec.msgpack.Encoder().encode

    def decoded() -> int:
        for body in packed:
            unpack(body)
        return len(packed)

    def encoded() -> int:
        for document in plain:
            pack(document)
        return len(plain)

    return "msgpack of the same documents", decoded, encoded


def launches(messages: Messages) -> Row:
    launch, body = next((name, body) for name, body in messages if name.endswith(".RunTaskMessage"))
    task = decode_to_v1(launch, body)

    def taken() -> int:
        decode_to_v1(launch, body)
        return 1

    def launched() -> int:
        encode_from_v1(launch, task)
        return 1

    return "launches of v1 documents", taken, launched


def best_rates(rows: list[Row], seconds: float) -> list[tuple[float, float]]:
    """Return how many messages a second each does, in and out: the best of ROUNDS, which take `seconds` together."""
    found = [(0.0, 0.0)] * len(rows)
    for _ in range(ROUNDS):
        for at, (_, inward, outward) in enumerate(rows):
            rates = per_second(inward, seconds / ROUNDS), per_second(outward, seconds / ROUNDS)
            found[at] = max(found[at][0], rates[0]), max(found[at][1], rates[1])
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=2.0, help="how long each is measured (default: 2)")
    seconds = arguments.parse_args().seconds
    messages = recorded()
    stream = b"".join(libprocess.encode(SENDER, TO, name, body) for name, body in messages) * 20
    pieces = [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]
    rows = [
        protobuf_alone(messages),
        documents_alone(messages),
        framing_alone(messages, pieces),
        documents(messages, pieces),
        launches(messages),
        msgpack(messages),
    ]
    size = sum(len(body) for _, body in messages) / len(messages)
    print(f"{len(messages)} kinds of message, {size:.0f} bytes each on average, {'compiled' if TABLE else 'in Python'}")
    rates = best_rates(rows, seconds)
    print(f"{'messages a second':32}{'in':>12}{'out':>12}{'beside protobuf alone':>26}")
    for (title, *_), (inward, outward) in zip(rows, rates, strict=True):
        times = f"{rates[0][0] / inward:.1f} and {rates[0][1] / outward:.1f} times"
        print(f"{title:32}{inward:12,.0f}{outward:12,.0f}{times:>26}")
    ways = (("in", "bytes to documents", "parsing"), ("out", "documents to bytes", "serializing"))
    for at, (key, way, baseline) in enumerate(ways):
        beside = (f"protobuf alone, {baseline}", rates[0][at])
        what = f"recorded messages a second, {way}"
        figure(f"documents {key}", what, rates[1][at], beside=beside, better="more", aim=AIM)
        figure(key, f"{what}, with libprocess' HTTP", rates[3][at], beside=beside, better="more", aim=AIM)


if __name__ == "__main__":
    main()
