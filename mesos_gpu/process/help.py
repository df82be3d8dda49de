"""/help: which endpoints a program has. Mesos renders a manual there; this is a list, in plain text."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web


def help_page(program: str, paths: Iterable[str]) -> web.Response:
    """Return the list of `paths`, below the words that say whose they are."""
    lines = [
        f"HTTP endpoints of this {program}, as in Apache Mesos. `api/v1` takes calls as POST, in JSON or protobuf.",
        "",
        *(f"/{path}" for path in sorted({*paths, "help"})),
    ]
    return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")
