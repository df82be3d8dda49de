"""What documents have and v1 messages have no field for: `checkpoint` of an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format

from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.message_types import message_class
from mesos_gpu.mesos.resource import Document

pytestmark = pytest.mark.usefixtures("compiled_codec")


def in_python(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any], *arguments: Any) -> Any:
    """What Python makes of it without the compiled codec."""
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "TABLE", None)
        return work(*arguments)


@pytest.mark.parametrize("checkpoint", [True, False, None, "true", 7, {}])
def test_what_v1_has_no_field_for_is_left_out_as_by_the_library(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = {"hostname": "m1", "checkpoint": checkpoint, "port": 5051, "id": {"value": "S1"}}
    agents = {"agents": [{"agent_info": info, "active": True, "version": "1", "registered_time": {"nanoseconds": 1}}]}
    whole = {"type": "GET_AGENTS", "get_agents": agents}
    for type_name, document in (("mesos.v1.AgentInfo", info), ("mesos.v1.master.Response", whole)):
        data = compiled.encoded(type_name, document)
        assert data is not None
        assert data == in_python(monkeypatch, messages.encode, type_name, document)
        assert data == in_the_library(type_name, document)
        assert "checkpoint" not in str(compiled.decoded(type_name, data))


def in_the_library(type_name: str, document: Document) -> bytes:
    """What protobuf's own JSON makes of it."""
    message = json_format.ParseDict(document, message_class(type_name)(), ignore_unknown_fields=True)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def test_bytes_of_the_internal_form_are_read_past_what_v1_has_no_field_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = messages.encode("mesos.SlaveInfo", {"hostname": "m1", "checkpoint": True, "port": 5051})
    assert compiled.decoded("mesos.v1.AgentInfo", data) == {"hostname": "m1", "port": 5051}
    assert in_python(monkeypatch, messages.decode, "mesos.v1.AgentInfo", data) == {"hostname": "m1", "port": 5051}
    other_form = data.replace(b"\x38\x01", b"\x3a\x01x")
    assert compiled.decoded("mesos.v1.AgentInfo", other_form) == {"hostname": "m1", "port": 5051}
    assert in_python(monkeypatch, messages.decode, "mesos.v1.AgentInfo", other_form) == {"hostname": "m1", "port": 5051}
