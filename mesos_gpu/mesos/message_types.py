"""The protobuf classes of Mesos' messages, built once from the field tables in messages.json (facts of Mesos 1.12)."""

from __future__ import annotations

import json
from functools import cache
from pkgutil import get_data

from google.protobuf import descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import Message

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.descriptors import file_of


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
