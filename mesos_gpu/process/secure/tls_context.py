"""The TLS contexts that settings ask for, and what went wrong in words. The standard library's ssl alone."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.security.tls_settings import PREFIX, TlsSettings
from mesos_gpu.mesos.security.tls_words import tls_words

X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_INVALID_PURPOSE = 9, 10, 26
"""Source: openssl/x509_vfy.h."""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return what accepts connections. Raises BadInput when files are not what they should be."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _prepare(context, settings)
    if settings.require_client:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, settings)
    return context


def client_context(settings: TlsSettings, *, show_certificate: bool = True) -> ssl.SSLContext:
    """Return what makes connections. Raises BadInput when files are not what they should be.

    It verifies by name (or address) where the scheme is `openssl`; `legacy` is the caller's, after the handshake.
    With `show_certificate` false it has none to show, and needs no key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _prepare(context, settings, show_certificate=show_certificate)
    if settings.verify_server:
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = settings.scheme == "openssl"
        _trust(context, settings)
    return context


def tls_problem(error: BaseException) -> str:
    """Return what a connection that failed means: in our words if we know, else in OpenSSL's or the system's."""
    text = str(error)
    found = tls_words(text, authorities=f"{PREFIX}CA_FILE")
    if found is not None:
        return found
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "it closed the connection during the TLS handshake: it speaks no TLS, or does not accept our certificate"
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or text or type(error).__name__


def expires_soon(certificate: Mapping[str, Any], now_s: float) -> bool:
    """Return whether a certificate has less than 30 days left, or, with a short life, less than a fifth of that."""
    if not {"notBefore", "notAfter"} <= certificate.keys():
        return False
    begin_s, end_s = (ssl.cert_time_to_seconds(certificate[name]) for name in ("notBefore", "notAfter"))
    return end_s - now_s < min(30 * 86400.0, (end_s - begin_s) / 5)


def renew(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load our current certificate, and authorities that were added to the files, into a client's context.

    Raises BadInput when a file cannot be used.
    """
    _show(context, settings)
    if settings.verify_server:
        _trust(context, settings)


def own_certificate(settings: TlsSettings) -> Mapping[str, Any]:
    """Return our certificate as `ssl.SSLSocket.getpeercert()` shows a peer's, empty if OpenSSL does not decode it.

    Raises BadInput when it cannot be read, has expired or is not valid yet: all peers that verify certificates would
    refuse it. It is read by a handshake with ourselves, since the standard library decodes certificates of peers only.
    """
    try:
        return _shown(settings, as_server=True)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code != X509_V_ERR_INVALID_PURPOSE:
            return {}
    try:
        return _shown(settings, as_server=False)
    except ssl.SSLError:
        return {}


def _shown(settings: TlsSettings, *, as_server: bool) -> Mapping[str, Any]:
    """Return our certificate as a peer sees it to which we are the server or the client.

    Raises BadInput as `own_certificate`, and SSLError.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verifier = client if as_server else server
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    verifier.verify_mode = ssl.CERT_REQUIRED
    verifier.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for context in (server, client):
        _show(context, settings)
    try:
        verifier.load_verify_locations(settings.cert_file)
    except OSError as error:  # SSLError is one
        raise BadInput(f"cannot use the certificate {settings.cert_file}: {error.strerror or error}") from None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    found: Mapping[str, Any] = {}
    try:
        while ends:
            for end in list(ends):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                ends.remove(end)
                if end.server_side is not as_server:
                    found = end.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        when = {X509_V_ERR_CERT_NOT_YET_VALID: "is not valid yet", X509_V_ERR_CERT_HAS_EXPIRED: "has expired"}
        if error.verify_code in when:
            raise BadInput(
                f"the certificate {settings.cert_file} {when[error.verify_code]}: `openssl x509 -noout -dates -in "
                f"{settings.cert_file}` shows its dates"
            ) from None
        raise
    return found


def _prepare(context: ssl.SSLContext, settings: TlsSettings, *, show_certificate: bool = True) -> None:
    low = ssl.TLSVersion.TLSv1_2 if settings.tls_1_2 else ssl.TLSVersion.TLSv1_3
    high = ssl.TLSVersion.TLSv1_3 if settings.tls_1_3 else ssl.TLSVersion.TLSv1_2
    context.minimum_version, context.maximum_version = low, high
    if show_certificate:
        _show(context, settings)
    try:
        context.set_ciphers(settings.ciphers)
    except ssl.SSLError:
        raise BadInput(f"{PREFIX}CIPHERS: OpenSSL knows none of '{settings.ciphers}'") from None
    if settings.curve is not None:
        try:
            context.set_ecdh_curve(settings.curve)
        except (ValueError, ssl.SSLError):
            raise BadInput(f"{PREFIX}ECDH_CURVES: OpenSSL knows no curve '{settings.curve}'") from None


def _show(context: ssl.SSLContext, settings: TlsSettings) -> None:
    def no_password() -> str:
        raise BadInput(f"the key {settings.key_file} has a password; write it without one, readable by us alone")

    for name, path in (("certificate", settings.cert_file), ("key", settings.key_file)):
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise BadInput(f"cannot read the {name} {path}: {error.strerror}") from None
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file, no_password)
    except FileNotFoundError as error:  # it is just being replaced
        raise BadInput(f"{settings.cert_file} and {settings.key_file}: {error.strerror}") from None
    except ssl.SSLError as error:
        why = "the key is not that of the certificate" if "MISMATCH" in str(error) else f"no PEM in it ({error.reason})"
        raise BadInput(f"{settings.cert_file} and {settings.key_file}: {why}") from None


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.ca_file is None and settings.ca_dir is None:
        context.load_default_certs()
        return
    named = " and ".join(path for path in (settings.ca_file, settings.ca_dir) if path is not None)
    try:
        context.load_verify_locations(settings.ca_file, settings.ca_dir)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror if not isinstance(error, ssl.SSLError) else "no certificate in it"
        raise BadInput(f"{PREFIX}CA_FILE or CA_DIR: cannot use {named}: {why}") from None
