"""Calls of a box to its own services, over the standard library: requests takes longer to import than `up` may take."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 5.0


class Answer(NamedTuple):
    """The status of an answer, and its document; None where it is no JSON."""

    status: int
    document: Any

    @property
    def ok(self) -> bool:
        """Return whether the call did what it was for."""
        return self.status < 400


def get(url: str, login: tuple[str, str] | None) -> Answer | None:
    """Ask a service of this machine, with a user's name and password; None where none answers in a few seconds."""
    from http.client import HTTPConnection, HTTPException  # half of what it takes to import this room

    parts = urlsplit(url)
    headers = {"Accept": "application/json"}
    if login is not None:
        headers["Authorization"] = f"Basic {b64encode(':'.join(login).encode()).decode()}"
    connection = HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"{parts.path}{'?' if parts.query else ''}{parts.query}", headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, _json(answer.read()))
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
