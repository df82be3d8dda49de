"""The name of an image, as Docker spells it: `[HOST[:PORT]/]REPOSITORY[:TAG][@DIGEST]`. Pure.

Source of the grammar: distribution/reference, "reference.go" and "normalize.go".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from mesos_gpu.errors import BadInput

DOCKER_HUB = "docker.io"
DEFAULT_TAG = "latest"
MAX_NAME = 255

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_ID = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Say whether `text` is a digest we can check: sha256 or sha512, spelled in lower case."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image by name. `registry` is None where the name has none: then --docker_registry decides.

    There is always a tag or a digest; where both are written the digest decides, as in Docker.
    """

    registry: str | None
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Read a name as given to `docker pull`. Raises BadInput with what is wrong with it."""
        name, at, digest = text.partition("@")
        if at and not is_digest(digest):
            raise _bad(text, f"{digest!r} is not a digest such as sha256:<64 hex digits>")
        head, slash, last = name.rpartition("/")
        last, colon, tag = last.partition(":")
        if colon and not _TAG.fullmatch(tag):
            raise _bad(text, f"{tag!r} is not a tag (letters, digits, '_', '.', '-'; at most 128)")
        name = head + slash + last
        registry, repository = _split(name)
        if registry is not None and not _HOST.fullmatch(registry):
            raise _bad(text, f"{registry!r} is not a registry's HOST or HOST:PORT")
        if not _REPOSITORY.fullmatch(repository):
            advice = "; repositories are in lower case" if repository != repository.lower() else ""
            raise _bad(text, f"{repository!r} is not a repository{advice}")
        if len(name) > MAX_NAME:
            raise _bad(text, f"longer than {MAX_NAME} characters")
        if registry is None and _ID.fullmatch(name):
            raise _bad(text, "64 hex digits are an image id, which no registry can look up")
        reference = cls(registry, repository, tag or (None if digest else DEFAULT_TAG), digest or None)
        return reference.on(registry) if registry is not None else reference

    def on(self, registry: str) -> ImageReference:
        """Return this image at `registry`, if its name says none. Docker Hub keeps plain names under `library/`."""
        registry = self.registry or registry
        repository = self.repository
        if is_docker_hub(registry):
            registry = DOCKER_HUB
            repository = repository if "/" in repository else f"library/{repository}"
        return replace(self, registry=registry, repository=repository)

    @property
    def name(self) -> str:
        """Registry, if any, and repository: everything before the tag."""
        return self.repository if self.registry is None else f"{self.registry}/{self.repository}"

    @property
    def version(self) -> str:
        """What a registry is asked for: the digest, else the tag."""
        return self.digest or self.tag or DEFAULT_TAG

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")


def is_docker_hub(host: str) -> bool:
    """Say whether a registry host is Docker Hub, under any of its names."""
    return host in (DOCKER_HUB, f"index.{DOCKER_HUB}", f"registry-1.{DOCKER_HUB}", f"registry.{DOCKER_HUB}")


def _split(name: str) -> tuple[str | None, str]:
    # `a/b` is a repository, `a.b/c`, `a:1/c` and `localhost/c` have a registry: Docker's rule.
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first or first != first.lower()):
        return first, rest
    return None, name


def _bad(text: str, problem: str) -> BadInput:
    return BadInput(f"bad image name {text!r}: {problem}")
