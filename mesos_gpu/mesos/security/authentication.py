"""Who makes an HTTP request, by its Authorization header: a principal with its secret, or an executor with a token.

Source: Mesos 3rdparty/libprocess/src/authenticator.cpp, jwt.cpp and jwt_authenticator.cpp,
src/authentication/http/combined_authenticator.cpp; RFC 7617, 7519.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from mesos_gpu.mesos.security.authorization import Principal

UNAUTHORIZED = "401 Unauthorized."
EXECUTOR_TOKEN = "MESOS_EXECUTOR_AUTHENTICATION_TOKEN"
"""The variable that an executor finds its token in."""


class Authenticator(Protocol):
    """One way to show who one is."""

    @property
    def scheme(self) -> str:
        """Return the scheme, as in the header."""

    def authenticate(self, header: str | None, now_s: float) -> Principal | None:
        """Return who sends this Authorization header; None when it does not show that."""


@dataclass(frozen=True, slots=True)
class Basic:
    """A name and a secret, in base64 (RFC 7617). A secret may have a colon, which Mesos does not take."""

    secrets: Mapping[str, str] = field(repr=False)
    """By principal."""
    scheme: str = "Basic"

    def authenticate(self, header: str | None, now_s: float) -> Principal | None:
        """Return whose secret it is. How long that takes tells nothing about secrets, or about who is known."""
        found = _credentials(header, self.scheme)
        if found is None:
            return None
        try:
            name, colon, secret = base64.b64decode(found, validate=True).decode().partition(":")
        except ValueError:  # not base64, or not UTF-8
            return None
        known = self.secrets.get(name)
        same = hmac.compare_digest((known or "").encode(), secret.encode())
        return Principal(name) if same and known and colon else None


@dataclass(frozen=True, slots=True)
class Bearer:
    """A JSON web token, signed with one of the agent's keys (HS256)."""

    keys: Sequence[bytes] = field(repr=False)
    scheme: str = "Bearer"

    def authenticate(self, header: str | None, now_s: float) -> Principal | None:
        """Return the claims of a token that we made and that has not expired."""
        found = _credentials(header, self.scheme)
        claims = () if found is None else (read_token(found, key, now_s) for key in self.keys)
        return next((Principal(claims=one) for one in claims if one), None)


class Realm(Struct, frozen=True):
    """Endpoints with one way, or several, to show who one is."""

    name: str
    authenticators: Sequence[Authenticator]
    required: bool = True
    """Whether callers must authenticate; if not, credentials that a caller shows still identify it."""

    def authenticate(self, header: str | None, now_s: float) -> Principal | None:
        """Return who sends this Authorization header, None when nobody knows."""
        for authenticator in self.authenticators:
            principal = authenticator.authenticate(header, now_s)
            if principal is not None:
                return principal
        return None

    @property
    def challenge(self) -> str:
        """Return the WWW-Authenticate header of a refusal."""
        return ",".join(f'{one.scheme} realm="{self.name}"' for one in self.authenticators)

    @property
    def refusal(self) -> str:
        """Return the body of a refusal."""
        if len(self.authenticators) == 1:
            return UNAUTHORIZED
        return "\n\n".join(f'"{one.scheme}" authenticator returned:\n{UNAUTHORIZED}' for one in self.authenticators)


def basic_header(principal: str, secret: str) -> str:
    """Return the Authorization header that shows a principal's secret (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{principal}:{secret}".encode()).decode("ascii")


def make_token(claims: Mapping[str, str], key: bytes) -> str:
    """Return a token that says `claims`, signed with `key`."""
    parts = [_encode(_json({"alg": "HS256", "typ": "JWT"})), _encode(_json(dict(claims)))]
    signed = ".".join(parts)
    return f"{signed}.{_encode(_signature(signed, key))}"


def read_token(token: str, key: bytes, now_s: float) -> dict[str, str] | None:
    """Return the claims of a token; None when it is none, is not signed with `key`, or has expired at `now_s`.

    What it says is looked at only once the signature is known to be ours.
    """
    signed, _, signature = token.rpartition(".")
    head, dot, payload = signed.partition(".")
    try:
        if not dot or not hmac.compare_digest(_decode(signature), _signature(signed, key)):
            return None
        header, claims = json.loads(_decode(head)), json.loads(_decode(payload))
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return None
    if header.get("alg") != "HS256" or "crit" in header:
        return None
    expires = claims.get("exp", now_s)
    if isinstance(expires, bool) or not isinstance(expires, (int, float)) or expires < now_s:
        return None
    return {name: value if isinstance(value, str) else _json(value).decode() for name, value in claims.items()}


def _credentials(header: str | None, scheme: str) -> str | None:
    given, space, rest = (header or "").strip().partition(" ")
    return rest.strip() if space and given.lower() == scheme.lower() else None


def _signature(signed: str, key: bytes) -> bytes:
    return hmac.new(key, signed.encode(), hashlib.sha256).digest()


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    """Return base64url bytes. Raises ValueError (binascii.Error, UnicodeError are kinds of it)."""
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
