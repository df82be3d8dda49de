"""Whether a certificate is that of the peer it came from, by libprocess' scheme `legacy`. Pure.

Source: Mesos 3rdparty/libprocess/src/openssl.cpp (verify). Other than there, a peer of which nothing can be compared is
never let through.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any


def not_of(certificate: Mapping[str, Any], ip: str, name: str | None, *, by_ip: bool) -> str | None:
    """Return why a verified certificate is not that of the peer at `ip`; None when it is.

    `certificate` is as `ssl.SSLSocket.getpeercert()` gives it. `name` is what the address resolves to, None when that
    is nothing; names must be the same to the letter, without wildcards. With `by_ip` the address is enough.
    """
    if name is None and not by_ip:
        return f"no name is known for {ip}, so its certificate cannot be compared (LIBPROCESS_SSL_VERIFY_IPADD)"
    alternatives = certificate.get("subjectAltName", ())
    if name is not None and ("DNS", name) in alternatives:
        return None
    if by_ip and any(kind == "IP Address" and _same(text, ip) for kind, text in alternatives):
        return None
    common = [text for part in certificate.get("subject", ()) for key, text in part if key == "commonName"]
    if name is not None and name in common[-1:]:
        return None
    told = [text for _, text in alternatives] or common
    asked = " or ".join(text for text in (name, ip if by_ip else None) if text is not None)
    return f"its certificate is for {', '.join(told) or 'nobody'}, not for {asked}"


def _same(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one.strip()) == ipaddress.ip_address(other)
    except ValueError:
        return False
