"""TLS to servers: the context that an Access asks for, and what went wrong in words that say what to do."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path

from marathon_cli.connection.access import Access
from mesos_gpu.errors import BadInput

BROKE_OFF = "it broke off; it may want a client certificate (--client-cert), or another one, or speak http"
"""What a server means that hangs up before its reason has been read: it refuses our certificate, or wants one."""
_REASONS = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet; is this machine's clock right?"),
    ("hostname mismatch", "its certificate is for another host name"),
    ("ip address mismatch", "its certificate is for another address"),
    ("self-signed certificate", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    ("self signed certificate", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    (
        "unable to get local issuer",
        "no trusted authority signed its certificate; --ca FILE names the authority that did",
    ),
    ("unable to get issuer", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    ("certificate_required", "it wants a client certificate: --client-cert FILE"),
    ("certificate required", "it wants a client certificate: --client-cert FILE"),
    ("unknown ca", "it does not trust our client certificate"),
    ("unknown_ca", "it does not trust our client certificate"),
    ("bad certificate", "it does not accept our client certificate"),
    ("eof occurred in violation", BROKE_OFF),
    ("wrong version number", "it does not speak TLS on this port; perhaps its URL begins with http://"),
    ("record layer failure", "it does not speak TLS on this port; perhaps its URL begins with http://"),
)


@lru_cache(maxsize=8)
def context(access: Access) -> ssl.SSLContext:
    """Return the TLS context of an access: TLS 1.2 or newer, the machine's authorities or the one named.

    Raises BadInput when a file cannot be read or is no certificate or key.
    """
    made = ssl.create_default_context(cafile=None if access.ca is None else str(_readable(access.ca, "--ca")))
    if access.insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if access.client_cert is not None:
        certificate = _readable(access.client_cert, "--client-cert")
        key = None if access.client_key is None else _readable(access.client_key, "--client-key")
        try:
            made.load_cert_chain(str(certificate), None if key is None else str(key))
        except (ssl.SSLError, OSError) as error:
            named = f"{certificate}{'' if key is None else f' and {key}'}"
            raise BadInput(f"{named}: no client certificate with its key can be read from it ({error})") from None
    return made


def reason(text: str) -> str | None:
    """Return what a failed handshake means, None when the text is of something else."""
    small = text.lower()
    if "ssl" not in small and "certificate" not in small and "tls" not in small:
        return None
    return next((meaning for sign, meaning in _REASONS if sign in small), None)


def _readable(path: Path, option: str) -> Path:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {path}: {(error.strerror or str(error)).lower()}") from None
    if b"-----BEGIN " not in content:
        raise BadInput(f"{option} {path}: this is not a PEM file (text with a line -----BEGIN ...-----)")
    if option == "--ca" and b"-----BEGIN CERTIFICATE-----" not in content:
        raise BadInput(f"{option} {path}: there is no certificate in it")
    return path
