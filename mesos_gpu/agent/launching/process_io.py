"""ProcessIO, the records that input and output of a container travel in. Pure: values and bytes.

Source: Mesos include/mesos/v1/agent/agent.proto, src/slave/containerizer/mesos/io/switchboard.cpp.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.mesos import messages, recordio
from mesos_gpu.process.requests import JSON, PROTOBUF

CALL, PROCESS_IO = "mesos.v1.agent.Call", "mesos.v1.agent.ProcessIO"
_encoder = msgspec.json.Encoder()


class Typed(Struct, frozen=True):
    """Input for the process; none of it is the end of input."""

    data: bytes


class Resized(Struct, frozen=True):
    """The client's terminal has this size."""

    rows: int
    columns: int


def output_record(stream: str, data: bytes, message_type: str) -> bytes:
    """Return one record of output of `stream`, STDOUT or STDERR."""
    text = base64.b64encode(data).decode("ascii")
    return _record({"type": "DATA", "data": {"type": stream, "data": text}}, message_type)


def heartbeat_record(interval_s: float, message_type: str) -> bytes:
    """Return a record that says the connection is alive."""
    interval = {"nanoseconds": int(interval_s * 1e9)}
    return _record(
        {"type": "CONTROL", "control": {"type": "HEARTBEAT", "heartbeat": {"interval": interval}}}, message_type
    )


def read_input(record: bytes, message_type: str) -> Mapping[str, Any]:
    """Return the `attach_container_input` of one record of a client. Raises BadInput with Mesos' words."""
    try:
        if message_type == PROTOBUF:
            call = messages.decode(CALL, record)
        else:
            document = msgspec.json.decode(record)
            if not isinstance(document, dict):
                raise BadInput("Failed to convert JSON into Call protobuf: Expecting a JSON object")
            call = messages.normalize(CALL, document)
    except (msgspec.DecodeError, UnicodeDecodeError, ProtocolError) as error:
        raise BadInput(f"Received streaming request with a record that is not a Call: {error}") from None
    if call.get("type") != "ATTACH_CONTAINER_INPUT":
        raise BadInput("Expecting 'type' to be ATTACH_CONTAINER_INPUT in every record")
    attach = call.get("attach_container_input")
    if attach is None:
        raise BadInput("Failed to validate agent::Call: Expecting 'attach_container_input' to be present")
    kind = attach.get("type")
    if kind not in ("CONTAINER_ID", "PROCESS_IO"):
        raise BadInput("Failed to validate agent::Call: Expecting 'attach_container_input.type' to be present")
    field = kind.lower()
    if field not in attach:
        raise BadInput(f"Failed to validate agent::Call: Expecting 'attach_container_input.{field}' to be present")
    return dict(attach)


def input_of(attach: Mapping[str, Any]) -> Typed | Resized | None:
    """Return what a record after the first asks for; None for a heartbeat. Raises BadInput."""
    if attach["type"] != "PROCESS_IO":
        raise BadInput("Expecting 'attach_container_input.type' to be 'PROCESS_IO' after the first record")
    said = attach["process_io"]
    if said.get("type") == "DATA":
        data = said.get("data") or {}
        if data.get("type") != "STDIN":
            raise BadInput("Expecting 'process_io.data.type' to be 'STDIN'")
        return Typed(base64.b64decode(data.get("data", "")))
    control = said.get("control") or {}
    if said.get("type") != "CONTROL" or control.get("type") not in ("TTY_INFO", "HEARTBEAT"):
        raise BadInput("Expecting 'process_io' to be data, a window size or a heartbeat")
    if control["type"] == "HEARTBEAT":
        return None
    window = (control.get("tty_info") or {}).get("window_size")
    if window is None or "rows" not in window or "columns" not in window:
        raise BadInput("Expecting 'tty_info.window_size' with 'rows' and 'columns'")
    return Resized(int(window["rows"]), int(window["columns"]))


def _record(document: Mapping[str, Any], message_type: str) -> bytes:
    data = messages.encode(PROCESS_IO, document) if message_type == PROTOBUF else _encoder.encode(document)
    return recordio.encode(data)


__all__ = ["JSON", "PROTOBUF", "Resized", "Typed", "heartbeat_record", "input_of", "output_record", "read_input"]
