"""What a registry asks of us before it answers, and what we may tell it. Bytes and values only. Pure.

Sources: distribution docs/spec/auth/token.md; RFC 7235, section 2.1; Docker's config.json ("auths").
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mesos_gpu.errors import BadFlag
from mesos_gpu.images.reference import DOCKER_HUB, is_docker_hub
from mesos_gpu.mesos.security.authentication import basic_header

_PIECE = re.compile(r'\s*(?:([\w.~+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([\w-]+)(?=\s|$))\s*,?')


def parse_challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each scheme of a WWW-Authenticate header; schemes and names in lower case."""
    challenges: dict[str, dict[str, str]] = {}
    current: dict[str, str] | None = None
    position = 0
    while found := _PIECE.match(header, position):
        position = found.end()
        name, quoted, plain, scheme = found.groups()
        if scheme is not None:
            current = challenges.setdefault(scheme.lower(), {})
        elif current is not None:
            current[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
    return challenges


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are at one registry: a user and password, or an identity token to be changed for access tokens."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str | None:
        """The Authorization header of user and password; None without a user."""
        if not self.username:
            return None
        return basic_header(self.username, self.password)


class DockerConfig(Struct, frozen=True):
    """Credentials by registry host, as `docker login` writes them. Credential helpers are programs and are not run."""

    auths: Mapping[str, Credentials] = msgspec.field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> DockerConfig:
        """Read the JSON of --docker_config. Raises BadFlag; the message never holds a password."""
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            raise BadFlag("docker_config", 'not JSON; it must look like {"auths": {"HOST": {"auth": "..."}}}') from None
        auths = document.get("auths", {}) if isinstance(document, dict) else None
        if not isinstance(auths, dict):
            raise BadFlag("docker_config", 'it must be an object with "auths", an object by registry host')
        return cls({_host(key): _credentials(key, value) for key, value in auths.items()})

    def at(self, host: str) -> Credentials:
        """Return who we are at a registry, `HOST` or `HOST:PORT`; nobody, if the config does not say."""
        return self.auths.get(DOCKER_HUB if is_docker_hub(host) else host.lower(), Credentials())


def _host(key: str) -> str:
    # Keys are hosts or URLs; Docker Hub's is https://index.docker.io/v1/.
    host = urlsplit(key if "//" in key else f"//{key}").netloc.lower()
    return DOCKER_HUB if is_docker_hub(host) else host


def _credentials(key: str, value: Any) -> Credentials:
    if not isinstance(value, dict):
        raise BadFlag("docker_config", f"auths[{key!r}] must be an object")
    words = {name: value.get(name) or "" for name in ("auth", "username", "password", "identitytoken")}
    if not all(isinstance(word, str) for word in words.values()):
        raise BadFlag("docker_config", f"auths[{key!r}] must hold texts")
    username, password = words["username"], words["password"]
    if words["auth"]:
        try:
            username, colon, password = base64.b64decode(words["auth"], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = ""
        if not colon:
            raise BadFlag("docker_config", f"auths[{key!r}].auth must be base64 of user:password") from None
    return Credentials(username, password, words["identitytoken"])
