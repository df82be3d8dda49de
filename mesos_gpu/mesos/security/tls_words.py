"""What a failed TLS handshake means, told from OpenSSL's words for it. Pure."""

from __future__ import annotations

_UNTRUSTED = "no trusted authority signed its certificate"
_REASONS = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet; is this machine's clock right?"),
    ("hostname mismatch", "its certificate is for another host"),
    ("ip address mismatch", "its certificate is for another address"),
    ("self-signed certificate", _UNTRUSTED),
    ("self signed certificate", _UNTRUSTED),
    ("unable to get local issuer", _UNTRUSTED),
    ("unable to get issuer", _UNTRUSTED),
    ("did not return a certificate", "it shows no certificate, which LIBPROCESS_SSL_REQUIRE_CLIENT_CERT asks for"),
    ("certificate required", "it asks for a certificate of ours"),
    ("certificate expired", "it says that our certificate has expired"),
    ("unknown ca", "it does not trust the authority that signed our certificate"),
    ("bad certificate", "it does not accept our certificate"),
    ("certificate unknown", "it does not accept our certificate"),
    ("wrong version number", "it does not speak TLS"),
    ("record layer failure", "it does not speak TLS"),
    ("http request", "it speaks HTTP without TLS"),
    ("unsupported protocol", "it speaks no version of TLS that is switched on here"),
    ("protocol version", "we speak no version of TLS that is switched on there"),
    ("no shared cipher", "there is no cipher that both know and our certificate allows (LIBPROCESS_SSL_CIPHERS)"),
    ("handshake failure", "it accepts none of our ciphers, or wants a certificate of ours"),
    ("taking longer than", "it did not finish the TLS handshake in time"),
    ("handshake operation timed out", "it did not finish the TLS handshake in time"),
    (
        "eof occurred in violation",
        "it closed the connection during the TLS handshake: it speaks no TLS, or does not accept our certificate",
    ),
)


def tls_words(text: str, *, authorities: str) -> str | None:
    """Return what an error's text means, None when it is not known. `authorities` says how to name whom we trust."""
    small = text.lower().replace("_", " ")
    meaning = next((meaning for sign, meaning in _REASONS if sign in small), None)
    return f"{meaning} ({authorities})" if meaning == _UNTRUSTED else meaning
