"""ProcessIO, what travels between a terminal and a process in a container; and the keys that mean `detach`. Pure.

Source: Mesos include/mesos/v1/agent/agent.proto.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.mesos import recordio

DETACH_KEYS = "ctrl-p,ctrl-q"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """What a process wrote: to STDOUT, or to STDERR."""

    stderr: bool
    data: bytes


def feeding(container_id: Mapping[str, Any]) -> bytes:
    """Return the first record of ATTACH_CONTAINER_INPUT: who is fed."""
    return _record({"type": "CONTAINER_ID", "container_id": container_id})


def typed(data: bytes) -> bytes:
    """Return a record of input; no data is the end of input."""
    text = base64.b64encode(data).decode("ascii")
    return _io({"type": "DATA", "data": {"type": "STDIN", "data": text}})


def resized(rows: int, columns: int) -> bytes:
    """Return a record that tells the size of our window, in characters."""
    window = {"window_size": {"rows": rows, "columns": columns}}
    return _io({"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": window}})


def heartbeat(interval_s: float) -> bytes:
    """Return a record that says that we are there, and when the next one comes."""
    beat = {"interval": {"nanoseconds": int(interval_s * 1e9)}}
    return _io({"type": "CONTROL", "control": {"type": "HEARTBEAT", "heartbeat": beat}})


def output_of(record: bytes) -> Output | None:
    """Return what one record of an agent says; None for a heartbeat. Raises ProtocolError."""
    try:
        document = json.loads(record)
        if document["type"] != "DATA":
            return None
        said = document["data"]
        return Output(said["type"] == "STDERR", base64.b64decode(said.get("data", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ProtocolError(f"the agent sent a record that is no ProcessIO: {record[:60]!r}") from None


def keys(text: str) -> bytes:
    """Read keys such as `ctrl-p,ctrl-q` or `ctrl-],x`; empty is none. Raises BadInput."""
    return bytes(_key(word.strip(), text) for word in text.split(",")) if text.strip() else b""


@dataclass(slots=True)
class DetachKeys:
    """Watches what is typed for a sequence of keys; what may be its begin is kept back until that is decided."""

    sequence: bytes
    _kept: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be passed on, and whether the sequence was typed (what follows it is dropped)."""
        if not self.sequence:
            return data, False
        held = self._kept + data
        at = held.find(self.sequence)
        if at >= 0:
            self._kept = b""
            return held[:at], True
        most = min(len(held), len(self.sequence) - 1)
        keep = next((n for n in range(most, 0, -1) if held.endswith(self.sequence[:n])), 0)
        self._kept = held[len(held) - keep :]
        return held[: len(held) - keep], False


def _key(word: str, text: str) -> int:
    small = word.lower()
    if len(word) == 1 and word.isascii():
        return ord(word)
    if small.startswith("ctrl-") and len(small) == 6 and ("a" <= small[5] <= "z" or small[5] in "@[\\]^_"):
        return ord(small[5].upper()) & 0x1F
    raise BadInput(f"{text!r}: {word!r} is no key; give single characters and ctrl-a to ctrl-z, ctrl-@ [ \\ ] ^ or _")


def _io(process_io: Document) -> bytes:
    return _record({"type": "PROCESS_IO", "process_io": process_io})


def _record(body: Mapping[str, Any]) -> bytes:
    call = {"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": body}
    return recordio.encode(json.dumps(call, separators=(",", ":")).encode())
