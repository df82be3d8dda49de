"""ProcessIO from a client's side: what is typed into a process in a container, and what it says. Pure.

Source: Mesos include/mesos/v1/agent/agent.proto (Call.AttachContainerInput, ProcessIO).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import recordio

Document = dict[str, Any]
NO_INPUT = "I/O switchboard server was disabled"
"""What an agent says of a container that takes no input, and of a session that has ended (Mesos src/slave/http.cpp)."""


class Output(Struct, frozen=True):
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
        raise ProtocolError(f"the agent sent a record that is not a ProcessIO: {record[:60]!r}") from None


def exit_status(wait_status: int) -> int:
    """Return a shell's number for a wait status (wait(2)): the exit status, or 128 and the signal's number."""
    signal = wait_status & 0x7F
    return 128 + signal if signal else (wait_status >> 8) & 0xFF


def _io(process_io: Document) -> bytes:
    return _record({"type": "PROCESS_IO", "process_io": process_io})


def _record(body: Mapping[str, Any]) -> bytes:
    call = {"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": body}
    return recordio.encode(json.dumps(call, separators=(",", ":")).encode())
