"""UUIDs as Mesos' messages carry them: 16 bytes, in base64 within documents.

Mesos takes 16 bytes for one only when their version, the upper half of the seventh, is one of 1 to 5; of random bytes
that is 5 in 16. Source: 3rdparty/stout/include/stout/uuid.hpp (UUID::fromBytes) and boost::uuids::uuid::version.
"""

from __future__ import annotations

import base64
import binascii

from mesos_gpu.errors import ProtocolError

NOT_VALID = "Not a valid UUID"
"""What Mesos says of text that is not a UUID."""
UUID_BYTES = 16
_VERSIONS = range(1, 6)


def random_uuid(random: bytes) -> bytes:
    """Return the UUID of version 4 that these 16 random bytes make. Source: RFC 4122, 4.4."""
    number = bytearray(random)
    number[6], number[8] = number[6] & 0x0F | 0x40, number[8] & 0x3F | 0x80
    return bytes(number)


def is_uuid(text: str) -> bool:
    """Return whether Mesos takes this base64 for a UUID."""
    try:
        number = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(number) == UUID_BYTES and number[6] >> 4 in _VERSIONS


def uuid_in(text: str, what: str) -> str:
    """Return `text` when it is a UUID. Raises ProtocolError, naming `what` it was to be the UUID of."""
    if not is_uuid(text):
        raise ProtocolError(f"the uuid of {what} is not a UUID: {text!r}")
    return text
