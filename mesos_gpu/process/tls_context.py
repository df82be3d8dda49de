"""The TLS contexts that settings ask for, and what went wrong in words. The standard library's ssl alone."""

from __future__ import annotations

import ssl
from pathlib import Path

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.tls_settings import PREFIX, TlsSettings

_REASONS = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet; is this machine's clock right?"),
    ("hostname mismatch", "its certificate is for another host"),
    ("ip address mismatch", "its certificate is for another address"),
    ("self-signed certificate", f"nobody we trust signed its certificate ({PREFIX}CA_FILE)"),
    ("self signed certificate", f"nobody we trust signed its certificate ({PREFIX}CA_FILE)"),
    ("unable to get local issuer", f"nobody we trust signed its certificate ({PREFIX}CA_FILE)"),
    ("unable to get issuer", f"nobody we trust signed its certificate ({PREFIX}CA_FILE)"),
    ("did not return a certificate", f"it shows no certificate, which {PREFIX}REQUIRE_CLIENT_CERT asks for"),
    ("certificate required", "it asks for a certificate of ours"),
    ("certificate_required", "it asks for a certificate of ours"),
    ("certificate expired", "it says that our certificate has expired"),
    ("unknown ca", "it does not trust whoever signed our certificate"),
    ("unknown_ca", "it does not trust whoever signed our certificate"),
    ("bad certificate", "it does not accept our certificate"),
    ("certificate unknown", "it does not accept our certificate"),
    ("wrong version number", "it does not speak TLS"),
    ("record layer failure", "it does not speak TLS"),
    ("http request", "it speaks HTTP without TLS"),
    ("unsupported protocol", "it speaks no version of TLS that is switched on here"),
    ("protocol version", "we speak no version of TLS that is switched on there"),
    ("no shared cipher", f"there is no cipher that both know and our certificate allows ({PREFIX}CIPHERS)"),
    ("handshake failure", "it accepts none of our ciphers, or wants a certificate of ours"),
    ("taking longer than", "it did not finish the TLS handshake in time"),
    ("handshake operation timed out", "it did not finish the TLS handshake in time"),
    ("eof occurred in violation", "it hung up during the TLS handshake; perhaps it does not speak TLS"),
)


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
    small = text.lower().replace("_", " ") + text.lower()
    found = next((meaning for sign, meaning in _REASONS if sign in small), None)
    if found is not None:
        return found
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "it hung up during the TLS handshake; perhaps it does not speak TLS"
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
        raise BadInput(
            f"{PREFIX}KEY_FILE: {settings.key_file} has a password; write the key without one, readable by us"
        )

    for name, path in (("CERT_FILE", settings.cert_file), ("KEY_FILE", settings.key_file)):
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise BadInput(f"{PREFIX}{name}: cannot read {path}: {error.strerror}") from None
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
