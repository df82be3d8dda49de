"""Whom we believe on the way out: the certificate authorities that downloads are verified with."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

from mesos_gpu.mesos.security.tls_words import tls_words

HOW = "SSL_CERT_FILE in the agent's environment names a file of authorities in place of this machine's"


def trusted() -> ssl.SSLContext:
    """Return the context of clients: the machine's authorities, or those of SSL_CERT_FILE and SSL_CERT_DIR."""
    return _made(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


def why(error: BaseException) -> str | None:
    """Return why a server was not believed, or why TLS with it failed, in words; None for anything else."""
    text = str(error)
    return tls_words(text, authorities=HOW) if "ssl" in text.lower() or isinstance(error, ssl.SSLError) else None


@lru_cache(maxsize=4)
def _made(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    # Reading them takes some 20 ms, which every download would wait for.
    return ssl.create_default_context()
