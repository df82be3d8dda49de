"""RecordIO, the framing of Mesos' streams: decimal length, a newline, that many bytes; nothing between records."""

from __future__ import annotations

from mesos_gpu.errors import ProtocolError

MAX_RECORD = 64 * 1024 * 1024
"""Bytes in the largest record we accept."""
MAX_DIGITS = len(str(MAX_RECORD))


def encode(record: bytes) -> bytes:
    """Return `record` with its length before it."""
    return b"%d\n%b" % (len(record), record)


class RecordDecoder:
    """RecordIO bytes in, whole records out. Holds no socket."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Return how many bytes of an unfinished record wait."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the records that `data` completes; keep the rest for the next call.

        Raises ProtocolError when a length is not a number or too big.
        """
        self._buffer += data
        records: list[bytes] = []
        while (end := self._buffer.find(b"\n", 0, MAX_DIGITS + 1)) >= 0:
            stop = end + 1 + _length(bytes(self._buffer[:end]))
            if len(self._buffer) < stop:
                return records
            records.append(bytes(self._buffer[end + 1 : stop]))
            del self._buffer[:stop]
        if len(self._buffer) > MAX_DIGITS:
            raise ProtocolError(f"no RecordIO length in the first {MAX_DIGITS} bytes")
        return records


def _length(digits: bytes) -> int:
    if not digits.isdigit():
        raise ProtocolError(f"{digits!r} is not a RecordIO length")
    length = int(digits)
    if length > MAX_RECORD:
        raise ProtocolError(f"a RecordIO record of {length} bytes is over the limit of {MAX_RECORD}")
    return length
