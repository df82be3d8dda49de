"""Somebody who changes weights, quota and maintenance over HTTP, as recorded of a real master."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tests.support import places
from tests.support.master.live import JSON
from tests.support.master.shapes import differences

CHANGES = json.loads((places.RECORDED / "operator-changes.json").read_text())


def recorded(kind: str, index: int = 0) -> Any:
    """The n-th recorded request of a v1 type or path, and its response."""
    found = [e for e in CHANGES if kind in (e["request"]["path"], (e["request"]["body"] or {}).get("type"))]
    return found[index]


class Operator:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session

    async def say(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, self.url + path, data=data, headers=JSON) as response:
            text = await response.text()
            is_json = response.headers.get("Content-Type", "").startswith("application/json")
            return response.status, json.loads(text) if is_json else text

    async def repeat(self, entry: Any) -> None:
        """Make a recorded request; expect its status, and a body of its shape."""
        request, real = entry["request"], entry["response"]
        status, body = await self.say(request["method"], request["path"], request["body"])
        assert (status, differences(body, real["body"])) == (real["status"], []), body
        if isinstance(real["body"], str):
            assert body == real["body"]
