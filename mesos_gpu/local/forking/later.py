"""Parts of libraries that each import would read, and that services of a box hardly ever use: read when they are.

Each such part would be there in the process that services are forked from: the certificates of all authorities, which
aiohttp reads for its two default contexts, and the names of HTML's characters. Whoever uses them finds them as ever.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class CertificatesLater(ssl.SSLContext):
    """A context that reads the machine's certificates for its first connection, and is any other from then on."""

    def wrap_bio(self, *words: Any, **named: Any) -> ssl.SSLObject:
        """See ssl.SSLContext."""
        self._read()
        return self.wrap_bio(*words, **named)

    def wrap_socket(self, *words: Any, **named: Any) -> ssl.SSLSocket:
        """See ssl.SSLContext."""
        self._read()
        return self.wrap_socket(*words, **named)

    def _read(self) -> None:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.set_default_verify_paths()


class _EntitiesLater(dict[str, str]):
    """html.entities.html5, once somebody looks into it, as html.unescape does."""

    def __contains__(self, name: object) -> bool:
        self._read()
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._read()
        return super().__getitem__(name)

    def _read(self) -> None:
        if not len(self):
            self.update(import_module("html.entities").html5)


def read_without() -> None:
    """Import aiohttp and html without those parts; what was imported before stays as it is."""
    with _certificates_later():
        import_module("aiohttp.connector")
    with _entities_later():
        import_module("html")


@contextmanager
def _certificates_later() -> Iterator[None]:
    """Have contexts that are made meanwhile read the machine's certificates when they are used."""
    made: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        made.append(context)

    ssl.SSLContext.set_default_verify_paths = note  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        # It is inherited: the class had none of its own.
        del ssl.SSLContext.set_default_verify_paths
        for context in made:
            context.__class__ = CertificatesLater


@contextmanager
def _entities_later() -> Iterator[None]:
    """Have html be imported without its table of names."""
    name = "html.entities"
    if name in sys.modules or "html" in sys.modules:
        yield
        return
    stand_in = ModuleType(name)
    vars(stand_in)["html5"] = _EntitiesLater()
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]
