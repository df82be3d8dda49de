"""A certificate authority for tests, made with the openssl program; servers that have its certificates."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

_CONFIG = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = {name}
[server]
subjectAltName = DNS:localhost,IP:127.0.0.1
[elsewhere]
subjectAltName = DNS:elsewhere.example.org
[client]
extendedKeyUsage = clientAuth
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
"""

_EC, _RSA = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"), ("rsa:2048",)


class Authority:
    """One authority and what it signs; every file is PEM. `certificate` is what clients trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate, self.key = folder / "ca.pem", folder / "ca.key"
        request = self._request("ca", self.key)
        self._sign(request, self.certificate, "ca", ["-signkey", str(self.key)])

    def issue(self, name: str, *, kind: str = "server", expired: bool = False, rsa: bool = False) -> tuple[Path, Path]:
        """Return a certificate and its key. `kind` is a section of the configuration above."""
        key, certificate = self._folder / f"{name}.key", self._folder / f"{name}.pem"
        request = self._request(name, key, _RSA if rsa else _EC)
        signer = ["-CA", str(self.certificate), "-CAkey", str(self.key), "-CAcreateserial"]
        self._sign(request, certificate, kind, signer, days=-1 if expired else 30)
        return certificate, key

    def server_context(self, certificate: Path, key: Path, *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if wants_client:
            context.load_verify_locations(self.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _request(self, name: str, key: Path, algorithm: tuple[str, ...] = _EC) -> Path:
        config = self._folder / f"{name}.cnf"
        config.write_text(_CONFIG.format(name=name))
        request = self._folder / f"{name}.csr"
        new = ["-new", "-newkey", *algorithm, "-nodes"]
        _openssl("req", *new, "-config", str(config), "-keyout", str(key), "-out", str(request))
        return request

    def _sign(self, request: Path, certificate: Path, kind: str, signer: list[str], days: int = 30) -> None:
        config = request.with_suffix(".cnf")
        words = ["-req", "-in", str(request), "-out", str(certificate), "-extfile", str(config), "-extensions", kind]
        _openssl("x509", *words, "-days", str(days), *signer)


def _openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
