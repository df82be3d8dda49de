"""What a command's URIs ask for: where each comes from, what it is called in the sandbox, and what is made of it. Pure.

Source: Mesos src/slave/containerizer/fetcher.cpp (names, rules), src/launcher/fetcher.cpp (archives).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from mesos_gpu.errors import BadInput

Archive: TypeAlias = Literal["tar", "zip", "gzip"]

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
REMOTE = ("http", "https", "ftp", "ftps")
FILE = "file://"
TAKEN = ("stdout", "stderr")
_NOT_IN_NAMES = "\\'\0"


class Item(Struct, frozen=True):
    """One URI. `name` is its file, relative to the sandbox; `scheme` is empty for a path of the agent's machine."""

    uri: str
    scheme: str
    name: str
    executable: bool = False
    extract: bool = True
    cache: bool = False

    @property
    def archive(self) -> Archive | None:
        """Return what it is unpacked as: its name decides, and a program is left as it is."""
        return None if self.executable or not self.extract else archive_of(self.name)


def read_uris(command: Mapping[str, Any]) -> tuple[Item, ...]:
    """Return what a CommandInfo wants fetched. Raises BadInput for what cannot be."""
    items = tuple(map(_item, command.get("uris", ())))
    for item in items:
        if item.name in TAKEN:
            raise BadInput(f"'{item.uri}' cannot be the file {item.name}: the task's own output is written there")
    return items


def archive_of(name: str) -> Archive | None:
    """Return the kind of archive that a file of this name is, None for other files."""
    if name.endswith(_TAR):
        return "tar"
    if name.endswith(".gz"):
        return "gzip"
    return "zip" if name.endswith(".zip") else None


def local_path(uri: str, frameworks_home: str | None) -> str:
    """Return the path that a URI without a remote scheme means. Raises BadInput for a relative one without a home."""
    if uri[: len(FILE)].lower() == FILE:
        path = uri[len(FILE) :]
        path = path[len("localhost") :] if path.startswith("localhost/") else path
        if not path.startswith("/"):
            raise BadInput(f"File URI only supports absolute paths: '{uri}'")
        return unquote(path, errors="surrogateescape")
    if uri.startswith("/"):
        return uri
    if not frameworks_home:
        raise BadInput(
            f"A relative path was passed for the resource ('{uri}') but the Mesos framework home was not specified. "
            "Please either provide this config option (--frameworks_home) or avoid using a relative path"
        )
    return posixpath.join(frameworks_home, uri)


def basename(uri: str) -> str:
    """Return the file name that a URI ends in. Raises BadInput when it names none."""
    if "://" in uri:
        rest = uri.split("://", 1)[1]
        if "/" not in rest or len(rest) <= rest.index("/") + 1:
            raise BadInput(f"Malformed URI (missing path): {uri}")
        uri = rest[rest.index("/") :]
    name = posixpath.basename(uri.rstrip("/"))
    if name in ("", ".", ".."):
        raise BadInput(f"Malformed URI (missing path): {uri}")
    return name


def _item(document: Mapping[str, Any]) -> Item:
    uri = str(document.get("value", ""))
    if not uri:
        raise BadInput("URI is empty")
    if any(character in uri for character in _NOT_IN_NAMES):
        raise BadInput(f"URI '{uri}' contains illegal characters: a backslash, a quote or NUL")
    scheme = uri.split("://", 1)[0].lower() if "://" in uri else ""
    if scheme not in ("", "file", *REMOTE):
        raise BadInput(f"'{uri}' cannot be fetched: http, https, ftp and file are known here, and {scheme} is not")
    if scheme in REMOTE:
        _check_remote(uri)
    elif scheme == "file" and "\0" in local_path(uri, None):
        raise BadInput(f"URI '{uri}' names no file: its path has a NUL byte (%00)")
    output = str(document.get("output_file") or "")
    name = _checked_output(output) if output else basename(uri)
    return Item(
        uri=uri,
        scheme="" if scheme == "file" else scheme,
        name=name,
        executable=bool(document.get("executable", False)),
        extract=bool(document.get("extract", True)),
        cache=bool(document.get("cache", False)),
    )


def _check_remote(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        well = bool(parts.hostname) and parts.port != 0
    except ValueError:
        well = False
    if not well:
        raise BadInput(f"Malformed URI: {uri}")


def _checked_output(output: str) -> str:
    path = posixpath.normpath(output)
    if path.startswith("/") or ".." in output.split("/") or path == ".":
        raise BadInput(f"URI output file must be within the sandbox directory: '{output}'")
    if any(character in output for character in _NOT_IN_NAMES):
        raise BadInput(f"URI output file '{output}' contains illegal characters")
    return path
