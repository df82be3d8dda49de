"""TLS as every libprocess program is told of it: LIBPROCESS_SSL_* in the environment. Pure.

Source: Mesos docs/ssl.md, 3rdparty/libprocess/src/openssl.cpp (names, defaults, what ends a program).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.flags import Flag, Flags, PathText, flag, flags_of

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


class TlsFlags(Flags):
    """The variables, without their prefix."""

    enabled: bool = flag(False, "Speak TLS: every connection that is made or accepted.")
    support_downgrade: bool = flag(
        False, "Take plain connections, too, and connect without TLS where TLS failed: for the time of a change-over."
    )
    cert_file: PathText | None = flag(None, "Our certificate and those between it and the authority, PEM. Needed.")
    key_file: PathText | None = flag(None, "Its private key, PEM, without a password. Needed.")
    verify_server_cert: bool = flag(False, "Refuse servers whose certificate no authority of ours signed.")
    verify_cert: bool = flag(False, "Older name of VERIFY_SERVER_CERT; either switches it on.")
    require_client_cert: bool = flag(
        False, "Refuse clients without a certificate that an authority of ours signed. Switches VERIFY_SERVER_CERT on."
    )
    require_cert: bool = flag(False, "Older name of REQUIRE_CLIENT_CERT; either switches it on.")
    verify_ipadd: bool = flag(False, "A peer may prove its IP address (subjectAltName) in place of its name.")
    ca_file: PathText | None = flag(
        None, "Whom we trust, PEM; the machine's authorities where neither this nor CA_DIR is set."
    )
    ca_dir: PathText | None = flag(None, "The same, as a directory made by `openssl rehash`.")
    ciphers: str = flag(CIPHERS, "What may be used with TLS 1.2, in OpenSSL's words, best first.")
    ecdh_curves: str = flag("auto", "The one curve to use in key exchange; `auto` leaves the choice to OpenSSL.")
    hostname_validation_scheme: str = flag(
        "legacy",
        "Whose certificate it must be. `openssl`: the name we connect to, or with VERIFY_IPADD the address; clients "
        "are not asked. `legacy`: of either peer the name that its address resolves to; with VERIFY_IPADD the address "
        "will do, too.",
        one_of=("legacy", "openssl"),
    )
    verification_depth: int = flag(4, "Accepted and not acted on: OpenSSL's own limit holds.")
    enable_tls_v1_2: bool = flag(True, "Speak TLS 1.2.")
    enable_tls_v1_3: bool = flag(False, "Speak TLS 1.3.")
    enable_tls_v1_1: bool = flag(False, "Not to be had here: broken, and refused by RFC 8996.")
    enable_tls_v1_0: bool = flag(False, "Not to be had here: broken, and refused by RFC 8996.")
    enable_ssl_v3: bool = flag(False, "Not to be had here: broken, and refused by RFC 7568.")


_ALSO = {"verify_depth": "verification_depth", "ecdh_curve": "ecdh_curves"}
"""What Mesos' documentation calls settings that its code has under other names."""


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
    values = TlsFlags(**{it.name: _read(it, texts[it.name]) for it in flags_of(TlsFlags) if it.name in texts})
    if not values.enabled:
        return None, []
    if not values.key_file:
        raise BadInput(f"{PREFIX}ENABLED needs {PREFIX}KEY_FILE: the path of a PEM file")
    if not values.cert_file:
        raise BadInput(f"{PREFIX}ENABLED needs {PREFIX}CERT_FILE: the path of a PEM file")
    if not values.enable_tls_v1_2 and not values.enable_tls_v1_3:
        raise BadInput(f"no protocol is left: switch {PREFIX}ENABLE_TLS_V1_2 or {PREFIX}ENABLE_TLS_V1_3 on")
    if ":" in values.ecdh_curves:
        raise BadInput(f"{PREFIX}ECDH_CURVES: one curve can be named here, or auto")
    broken = {
        "enable_tls_v1_1": values.enable_tls_v1_1,
        "enable_tls_v1_0": values.enable_tls_v1_0,
        "enable_ssl_v3": values.enable_ssl_v3,
    }
    said += [f"{PREFIX}{name.upper()} is not acted on: it is broken" for name, on in broken.items() if on]
    if values.verification_depth != 4:
        said.append(f"{PREFIX}VERIFICATION_DEPTH is not acted on: OpenSSL's own limit holds")
    require = values.require_client_cert or values.require_cert
    verify = values.verify_server_cert or values.verify_cert
    if require and not verify:
        said.append(f"{PREFIX}REQUIRE_CLIENT_CERT verifies certificates of servers, too")
    verify = verify or require
    if values.support_downgrade and verify:
        said.append(f"certificates are verified, but {PREFIX}SUPPORT_DOWNGRADE lets anyone in without TLS")
    elif values.support_downgrade:
        said.append(f"{PREFIX}SUPPORT_DOWNGRADE: who does not speak TLS is spoken to without")
    if not verify:
        said.append(
            f"certificates of servers are not verified, so anyone can pretend to be one: {PREFIX}VERIFY_SERVER_CERT"
        )
    settings = TlsSettings(
        cert_file=values.cert_file,
        key_file=values.key_file,
        ca_file=values.ca_file,
        ca_dir=values.ca_dir,
        verify_server=verify,
        require_client=require,
        verify_ip=values.verify_ipadd,
        downgrade=values.support_downgrade,
        scheme=values.hostname_validation_scheme,
        ciphers=values.ciphers,
        curve=None if values.ecdh_curves == "auto" else values.ecdh_curves,
        tls_1_2=values.enable_tls_v1_2,
        tls_1_3=values.enable_tls_v1_3,
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
    for name in (*(each.name for each in flags_of(TlsFlags)), *_ALSO):
        new, old = environ.get(PREFIX + name.upper()), environ.get(OLD_PREFIX + name.upper())
        if new is not None and old is not None and new != old and name != "cert_file":
            said.append(f"{PREFIX}{name.upper()} and {OLD_PREFIX}{name.upper()} differ; the first is taken")
        text = old if new is None else new
        if text is not None:
            texts.setdefault(_ALSO.get(name, name), text)
    return texts, said


def _read(flag: Flag, text: str) -> Any:
    try:
        return flag.read(text)
    except ValueError as error:
        raise BadInput(f"{PREFIX}{flag.name.upper()}: {error}") from None
