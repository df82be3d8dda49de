"""What is said between a command and the helper, as bytes. Pure.

The command says who it is in one frame, its descriptors beside it, and the helper forks. The child answers READY, or
REFUSED and why. Only GO lets it begin, and who has said GO never carries the command out itself: nothing is done twice.
Then the command passes signals on, and the helper says in the end how its child has ended (the status of waitpid).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HELLO = b"mesos-gpu resident 1\n"
READY, REFUSED, GO, SIGNAL, ENDED, LEAVE = b"R", b"N", b"G", b"S", b"E", b"L"
MOST = 1 << 20
"""The most bytes of a command's words and environment."""
_COUNT = 4


class BadFrame(Exception):
    """What came is not what we speak: the peer is of another version, or none of ours."""


class Request:
    """A command: its words (the program's name first) and its environment, each `NAME=VALUE`."""

    def __init__(self, words: Sequence[bytes], variables: Sequence[bytes]) -> None:
        self.words, self.variables = tuple(words), tuple(variables)

    def environ(self) -> Mapping[bytes, bytes]:
        """Return the environment; of a name that is there twice, the first, as getenv(3) has it."""
        found: dict[bytes, bytes] = {}
        for variable in self.variables:
            name, equals, value = variable.partition(b"=")
            if equals and name:
                found.setdefault(name, value)
        return found


def request(words: Sequence[bytes], environ: Mapping[bytes, bytes]) -> bytes | None:
    """Return the frame of a command; None when it is too large."""
    texts = [*words, *(b"%b=%b" % pair for pair in environ.items())]
    body = b"".join(b"%b\0" % text for text in texts)
    if len(body) + _COUNT > MOST:
        return None
    return HELLO + (len(body) + _COUNT).to_bytes(_COUNT, "big") + len(words).to_bytes(_COUNT, "big") + body


class RequestReader:
    """Bytes of one command in, its request out, however they were cut. Holds no socket."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Request | None:
        """Return the request when it is whole. Raises BadFrame when it is none, or is followed by anything."""
        self._held += data
        start = len(HELLO)
        if self._held[:start] != HELLO[: len(self._held)]:
            raise BadFrame("it does not begin as ours do")
        if len(self._held) < start + _COUNT:
            return None
        size = int.from_bytes(self._held[start : start + _COUNT], "big")
        if not _COUNT <= size <= MOST:
            raise BadFrame(f"{size} bytes are too many or too few")
        body = self._held[start + _COUNT :]
        if len(body) > size:
            raise BadFrame("something follows before it was asked for")
        if len(body) < size:
            return None
        count = int.from_bytes(body[:_COUNT], "big")
        *texts, last = body[_COUNT:].split(b"\0")
        if last or not 0 < count <= len(texts):
            raise BadFrame("its words are not whole")
        return Request(texts[:count], texts[count:])


def leave() -> bytes:
    """Return the request that the helper ends."""
    return HELLO + _COUNT.to_bytes(_COUNT, "big") + bytes(_COUNT)


def is_leave(data: bytes) -> bool:
    """Whether the first bytes of a peer ask the helper to end."""
    return data == leave()


def signals(data: bytes) -> Iterator[int]:
    """Yield the numbers of the signals in what a command says after GO; each message is two bytes."""
    for index in range(0, len(data) - 1, 2):
        if data[index : index + 1] == SIGNAL:
            yield data[index + 1]


def signal_frame(number: int) -> bytes:
    """Return the frame that passes a signal on."""
    return SIGNAL + bytes([number])


def ended(status: int) -> bytes:
    """Return the frame of a child's end; `status` as waitpid(2) gives it."""
    return ENDED + status.to_bytes(_COUNT, "big")


def status_of(data: bytes) -> int | None:
    """Return the status in a frame of an end; None when it is none."""
    if data[:1] != ENDED or len(data) != 1 + _COUNT:
        return None
    return int.from_bytes(data[1:], "big")
