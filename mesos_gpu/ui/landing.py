"""What a browser finds at `/` of a master or an agent: the page of its Marathon, or plain links where none is known."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

from aiohttp import web

from mesos_gpu.ui.assets import HEADERS


def wants_page(request: web.Request) -> bool:
    """Return whether somebody looks with a browser: programs that ask for `/` get what they always got."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")


def page_of(webui_url: str, page: str, name: str = "") -> str | None:
    """Return where our page is at a Marathon that says it is at `webui_url`; None where that is not a web address."""
    if not webui_url.startswith(("http://", "https://")):
        return None
    return f"{webui_url.rstrip('/')}/ui/#/{page}{'/' + quote(name, safe='') if name else ''}"


def redirect(location: str) -> web.Response:
    """Send a browser elsewhere."""
    return web.Response(status=302, headers={"Location": location, "Cache-Control": "no-store"})


def links_page(title: str, sentence: str, links: Sequence[tuple[str, str]]) -> web.Response:
    """Answer with a title, a sentence and links, each a target and what it is called. Texts may be anybody's."""
    items = "\n".join(
        f'    <li><a href="{html.escape(target)}">{html.escape(name)}</a></li>'
        for target, name in links
        if target.startswith(("/", "http://", "https://"))
    )
    text = f"""<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width">
  <title>{html.escape(title)}</title>
  <h1>{html.escape(title)}</h1>
  <p>{html.escape(sentence)}</p>
  <ul>
{items}
  </ul>
</html>
"""
    return web.Response(body=text.encode(), headers={**HEADERS, "Content-Type": "text/html; charset=utf-8"})
