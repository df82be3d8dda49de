"""The protobuf classes of Mesos' messages, built once from the field tables in messages.json (facts of Mesos 1.12)."""

from __future__ import annotations

import json
from functools import cache
from pkgutil import get_data

from google.protobuf import descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import Message

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.descriptors import file_of

# Types that v1 calls by another name; all others differ by `mesos.v1.` for `mesos.` alone (include/mesos/v1).
_RENAMED = {"SlaveInfo": "AgentInfo", "SlaveID": "AgentID"}
_V0, _V1 = "mesos.", "mesos.v1."


def v1_name(internal_type: str) -> str:
    """Return what v1 calls an internal type: `mesos.v1.AgentInfo` for `mesos.SlaveInfo`; it need not exist."""
    head, dot, rest = internal_type.removeprefix(_V0).partition(".")
    return f"{_V1}{_RENAMED.get(head, head)}{dot}{rest}"


def field_names(type_name: str) -> frozenset[str]:
    """Return the names of the fields of a message type. Raises ProtocolError for an unknown type."""
    return frozenset(message_class(type_name).DESCRIPTOR.fields_by_name)


def enum_names(type_name: str) -> frozenset[str]:
    """Return the value names of an enum type, such as `mesos.v1.TaskState`."""
    return frozenset(pool().FindEnumTypeByName(type_name).values_by_name)


def is_message(type_name: str) -> bool:
    """Return whether a message type of this full name exists."""
    try:
        pool().FindMessageTypeByName(type_name)
    except KeyError:
        return False
    return True


@cache
def message_class(type_name: str) -> type[Message]:
    """Return the class of a message type. Raises ProtocolError for an unknown type."""
    try:
        return message_factory.GetMessageClass(pool().FindMessageTypeByName(type_name))
    except KeyError:
        raise ProtocolError(f"there is no Mesos message {type_name}") from None


@cache
def pool() -> descriptor_pool.DescriptorPool:
    """Return all types, internal and v1."""
    # importlib.resources would bring zipfile and tempfile into every service.
    tables = json.loads(get_data(__package__, "messages.json") or b"")
    made = descriptor_pool.DescriptorPool()
    made.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    made.Add(file_of("mesos", tables["internal"]))
    made.Add(file_of("mesos.v1", tables["v1"]))
    return made
