"""Somebody who listens to the operator's event stream."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from mesos_gpu.mesos import messages
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.resource import Document
from tests.support.master.live import JSON, soon

EVENT = "mesos.v1.master.Event"


class Session:
    """HTTP calls whose answers stay open; all are closed in the end."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(skip_auto_headers=["Content-Type", "Accept", "User-Agent"])
        self._open: list[aiohttp.ClientResponse] = []

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        for response in self._open:
            response.close()
        await self._session.close()

    async def post(self, url: str, data: str, headers: dict[str, str]) -> aiohttp.ClientResponse:
        self._open.append(await self._session.post(url, data=data, headers=headers))
        return self._open[-1]


class Operator:
    """Somebody who subscribed: events one by one."""

    def __init__(self, session: Session, url: str, accept: str = "application/json") -> None:
        self._session, self._url, self._accept = session, url, accept
        self._records: list[bytes] = []
        self._decoder = RecordDecoder()
        self.response: aiohttp.ClientResponse

    async def subscribe(self) -> Document:
        headers = {**JSON, "Accept": self._accept}
        self.response = await self._session.post(
            f"{self._url}/api/v1", data=json.dumps({"type": "SUBSCRIBE"}), headers=headers
        )
        assert self.response.status == 200
        assert self.response.headers["Content-Type"] == self._accept
        assert "Mesos-Stream-Id" not in self.response.headers
        first = await self.next()
        assert first["type"] == "SUBSCRIBED"
        assert await self.next() == {"type": "HEARTBEAT"}
        return first["subscribed"]  # type: ignore[no-any-return]

    async def next(self) -> Document:
        while not self._records:
            data, _ = await soon(self.response.content.readchunk())
            assert data, "the stream ended"
            self._records += self._decoder.feed(data)
            assert self._decoder.pending == 0, "one record is one chunk"
        record = self._records.pop(0)
        return messages.decode(EVENT, record) if self._accept.endswith("protobuf") else json.loads(record)

    async def event(self, kind: str) -> Any:
        event = await self.next()
        assert event["type"] == kind, event
        return event[kind.lower()]
