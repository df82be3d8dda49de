"""The TLS contexts that settings ask for, and what went wrong in words. The standard library's ssl alone."""

from __future__ import annotations

import ssl
from pathlib import Path

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.security.tls_settings import PREFIX, TlsSettings
from mesos_gpu.mesos.security.tls_words import tls_words


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
