"""The files of the page, as answers: types, hashes, compressed forms, and the headers that keep it to itself."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

from aiohttp import web
from msgspec import Struct

STATIC = Path(__file__).parent / "static"
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
"""What is served, by the end of a file's name; nothing else is."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Content-Security-Policy (W3C CSP 3): our own modules and styles; nothing inline or evaluated, in nobody's frame."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept by the browser, and used when the hash is still the same.
    "Cache-Control": "no-cache",
}
LATER = frozenset({"vendor/xterm.js", "vendor/xterm.css", "vendor/addon-fit.js", "parts/adopted.js"})
"""What is loaded when it is wanted: the terminal."""
_MODULES = "<!-- modules -->"


class Asset(Struct, frozen=True):
    """One file: its bytes as they are and compressed, its type and its hash."""

    plain: bytes
    packed: bytes
    content_type: str
    etag: str


def answer(request: web.Request, path: str) -> web.Response:
    """Answer with a file of the page, `path` being relative to it; without one, with the page."""
    asset = assets().get(path or "index.html")
    if asset is None:
        raise web.HTTPNotFound
    headers = {**HEADERS, "ETag": asset.etag, "Vary": "Accept-Encoding"}
    if asset.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = asset.content_type
    if "gzip" in request.headers.get("Accept-Encoding", "").lower():
        return web.Response(body=asset.packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=asset.plain, headers=headers)


@cache
def assets() -> dict[str, Asset]:
    """Return all files of the page by path, read once.

    The page names its modules, for the browser to load at once: it would find them one import after another.
    """
    found = dict(_below(STATIC, ""))
    modules = sorted(path for path in found if path.endswith(".js") and path not in LATER)
    links = "\n".join(f'    <link rel="modulepreload" href="{path}">' for path in modules)
    found["index.html"] = found["index.html"].replace(_MODULES.encode(), links.strip().encode())
    return {path: _asset(path, data) for path, data in found.items()}


def _below(folder: Path, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            found += _below(item, f"{prefix}{item.name}/")
        elif item.name.rpartition(".")[2] in TYPES:
            found.append((prefix + item.name, item.read_bytes()))
    return found


def _asset(path: str, data: bytes) -> Asset:
    packed = gzip.compress(data, 9, mtime=0)
    return Asset(data, packed, TYPES[path.rpartition(".")[2]], f'"{hashlib.sha256(data).hexdigest()[:32]}"')
