"""TLS as every libprocess program is told of it: LIBPROCESS_SSL_* in the environment. Pure.

Source: Mesos docs/ssl.md, 3rdparty/libprocess/src/openssl.cpp (names, defaults, what ends a program).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.flags import KINDS, Flag

PREFIX = "LIBPROCESS_SSL_"
OLD_PREFIX = "SSL_"
"""Before Mesos 1.0; still read where the new name is not set.

SSL_CERT_FILE is also OpenSSL's own, for whom to trust (MESOS-5863): that it differs is not worth a word.
"""

CLIENT_HELLO = 0x16
"""The first byte of whoever begins with TLS; no HTTP request begins so."""
MESOS_CIPHERS = (
    "AES128-SHA:AES256-SHA:RC4-SHA:DHE-RSA-AES128-SHA:DHE-DSS-AES128-SHA:DHE-RSA-AES256-SHA:DHE-DSS-AES256-SHA"
)
CIPHERS = f"ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:{MESOS_CIPHERS}"
"""What is good today first, then Mesos' own default, so that a real Mesos peer finds what it offers."""

FLAGS = (
    Flag("enabled", "boolean", False, "Speak TLS: every connection that is made or accepted."),
    Flag(
        "support_downgrade",
        "boolean",
        False,
        "Take plain connections, too, and connect without TLS where TLS failed: for the time of a change-over.",
    ),
    Flag("cert_file", "path", None, "Our certificate and those between it and the authority, PEM. Needed."),
    Flag("key_file", "path", None, "Its private key, PEM, without a password. Needed."),
    Flag("verify_server_cert", "boolean", False, "Refuse servers whose certificate no authority of ours signed."),
    Flag("verify_cert", "boolean", False, "Older name of VERIFY_SERVER_CERT; either switches it on."),
    Flag(
        "require_client_cert",
        "boolean",
        False,
        "Refuse clients without a certificate that an authority of ours signed. Switches VERIFY_SERVER_CERT on.",
    ),
    Flag("require_cert", "boolean", False, "Older name of REQUIRE_CLIENT_CERT; either switches it on."),
    Flag("verify_ipadd", "boolean", False, "A peer may prove its IP address (subjectAltName) in place of its name."),
    Flag(
        "ca_file", "path", None, "Whom we trust, PEM; the machine's authorities where neither this nor CA_DIR is set."
    ),
    Flag("ca_dir", "path", None, "The same, as a directory made by `openssl rehash`."),
    Flag("ciphers", "text", CIPHERS, "What may be used with TLS 1.2, in OpenSSL's words, best first."),
    Flag("ecdh_curves", "text", "auto", "The one curve to use in key exchange; `auto` leaves the choice to OpenSSL."),
    Flag(
        "hostname_validation_scheme",
        "text",
        "legacy",
        "Whose certificate it must be. `openssl`: the name we connect to, or with VERIFY_IPADD the address; clients "
        "are not asked. `legacy`: of either peer the name that its address resolves to; with VERIFY_IPADD the address "
        "will do, too.",
    ),
    Flag("verification_depth", "integer", 4, "Accepted and not acted on: OpenSSL's own limit holds."),
    Flag("enable_tls_v1_2", "boolean", True, "Speak TLS 1.2."),
    Flag("enable_tls_v1_3", "boolean", False, "Speak TLS 1.3."),
    Flag("enable_tls_v1_1", "boolean", False, "Not to be had here: broken, and refused by RFC 8996."),
    Flag("enable_tls_v1_0", "boolean", False, "Not to be had here: broken, and refused by RFC 8996."),
    Flag("enable_ssl_v3", "boolean", False, "Not to be had here: broken, and refused by RFC 7568."),
)
_ALSO = {"verify_depth": "verification_depth", "ecdh_curve": "ecdh_curves"}
"""What Mesos' documentation calls settings that its code has under other names."""
_BROKEN = ("enable_tls_v1_1", "enable_tls_v1_0", "enable_ssl_v3")
SCHEMES = ("legacy", "openssl")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What one program does with TLS. Paths are as given; nothing was read."""

    cert_file: str
    key_file: str
    ca_file: str | None = None
    ca_dir: str | None = None
    verify_server: bool = False
    require_client: bool = False
    verify_ip: bool = False
    downgrade: bool = False
    scheme: str = "legacy"
    ciphers: str = CIPHERS
    curve: str | None = None
    tls_1_2: bool = True
    tls_1_3: bool = False


def read_tls_settings(environ: Mapping[str, str]) -> tuple[TlsSettings | None, list[str]]:
    """Return what the environment says, None where TLS is off, and what the log should say about it at start.

    Raises BadInput for what libprocess would end for: values it cannot read, a missing key or certificate.
    """
    texts, said = _texts(environ)
    values = {flag.name: _read(flag, texts) for flag in FLAGS}
    if not values["enabled"]:
        return None, []
    for name in ("key_file", "cert_file"):
        if not values[name]:
            raise BadInput(f"{PREFIX}ENABLED needs {PREFIX}{name.upper()}: the path of a PEM file")
    if values["hostname_validation_scheme"] not in SCHEMES:
        raise BadInput(f"{PREFIX}HOSTNAME_VALIDATION_SCHEME is legacy or openssl")
    if not values["enable_tls_v1_2"] and not values["enable_tls_v1_3"]:
        raise BadInput(f"no protocol is left: switch {PREFIX}ENABLE_TLS_V1_2 or {PREFIX}ENABLE_TLS_V1_3 on")
    if ":" in values["ecdh_curves"]:
        raise BadInput(f"{PREFIX}ECDH_CURVES: one curve can be named here, or auto")
    said += [f"{PREFIX}{name.upper()} is not acted on: it is broken" for name in _BROKEN if values[name]]
    if values["verification_depth"] != 4:
        said.append(f"{PREFIX}VERIFICATION_DEPTH is not acted on: OpenSSL's own limit holds")
    require = values["require_client_cert"] or values["require_cert"]
    verify = values["verify_server_cert"] or values["verify_cert"]
    if require and not verify:
        said.append(f"{PREFIX}REQUIRE_CLIENT_CERT verifies certificates of servers, too")
    verify = verify or require
    if values["support_downgrade"] and verify:
        said.append(f"certificates are verified, but {PREFIX}SUPPORT_DOWNGRADE lets anyone in without TLS")
    elif values["support_downgrade"]:
        said.append(f"{PREFIX}SUPPORT_DOWNGRADE: who does not speak TLS is spoken to without")
    if not verify:
        said.append(
            f"certificates of servers are not verified, so anyone can pretend to be one: {PREFIX}VERIFY_SERVER_CERT"
        )
    settings = TlsSettings(
        cert_file=values["cert_file"],
        key_file=values["key_file"],
        ca_file=values["ca_file"],
        ca_dir=values["ca_dir"],
        verify_server=verify,
        require_client=require,
        verify_ip=values["verify_ipadd"],
        downgrade=values["support_downgrade"],
        scheme=values["hostname_validation_scheme"],
        ciphers=values["ciphers"],
        curve=None if values["ecdh_curves"] == "auto" else values["ecdh_curves"],
        tls_1_2=values["enable_tls_v1_2"],
        tls_1_3=values["enable_tls_v1_3"],
    )
    return settings, said


def tls_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that say how TLS is spoken, under their new names."""
    return {PREFIX + name.upper(): text for name, text in _texts(environ)[0].items()}


def without_tls(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no program speaks TLS for what this one says; OpenSSL's own variables stay."""
    return {
        name: text for name, text in environ.items() if not name.startswith(PREFIX) and name != f"{OLD_PREFIX}ENABLED"
    }


def _texts(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    texts: dict[str, str] = {}
    said: list[str] = []
    for name in (*(flag.name for flag in FLAGS), *_ALSO):
        new, old = environ.get(PREFIX + name.upper()), environ.get(OLD_PREFIX + name.upper())
        if new is not None and old is not None and new != old and name != "cert_file":
            said.append(f"{PREFIX}{name.upper()} and {OLD_PREFIX}{name.upper()} differ; the first is taken")
        text = old if new is None else new
        if text is not None:
            texts.setdefault(_ALSO.get(name, name), text)
    return texts, said


def _read(flag: Flag, texts: Mapping[str, str]) -> Any:
    text = texts.get(flag.name)
    if text is None:
        return flag.default
    try:
        return KINDS[flag.kind](text)
    except ValueError as error:
        raise BadInput(f"{PREFIX}{flag.name.upper()}: {error}") from None
