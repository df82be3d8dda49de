"""What a master shows of itself: its log, how much it logs, and the paths of before 1.0."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from tests.support.master.live import JSON, live_master

LINES = "".join(f"line {n}\n" for n in range(10_000))


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._url + path, allow_redirects=False) as response:
            return response.status, await response.text()

    async def call(self, kind: str, body: Any = None, accept: str = "application/json") -> tuple[int, Any]:
        call = {"type": kind} | ({} if body is None else {kind.lower(): body})
        headers = {**JSON, "Accept": accept}
        async with self._session.post(f"{self._url}/api/v1", data=json.dumps(call), headers=headers) as response:
            text = await response.text()
            is_json = response.headers.get("Content-Type") == "application/json"
            return response.status, json.loads(text)[kind.lower()] if is_json else text


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    log = tmp_path / "log" / "master.log"
    log.parent.mkdir()
    log.write_text(LINES)
    (log.parent / "secret").write_text("not for everybody")
    flags = (f"--external_log_file={log}", "--json_suffixes")
    async with live_master(tmp_path / "m", *flags) as running, aiohttp.ClientSession() as session:
        yield Client(session, running.url)


async def test_the_log_is_read_from_where_one_likes_64_kib_at_a_time(client: Client) -> None:
    _, text = await client.get("/files/read?path=/master/log&offset=-1")
    assert json.loads(text) == {"data": "", "offset": len(LINES)}
    _, text = await client.get("/master/files/read?path=/master/log&offset=5&length=100000")
    assert json.loads(text) == {"data": LINES[5 : 5 + 65536], "offset": 5}
    assert await client.get("/files/download?path=/master/log") == (200, LINES)
    status, text = await client.get("/files/read?path=/master/log&offset=0&length=2&jsonp=show")
    assert (status, text) == (200, 'show({"data":"li","offset":0});')
    assert json.loads((await client.get("/state"))[1])["external_log_file"].endswith("/log/master.log")
    assert (await client.get("/metrics/snapshot?timeout=soon"))[0] == 400
    _, debug = await client.get("/files/debug")
    assert list(json.loads(debug)) == ["/master/log"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/files/browse?path=/", 404, ""),
        ("/files/read?path=/master/secret&offset=0", 404, ""),
        ("/files/read?path=/master/log/../secret&offset=0", 404, ""),
        ("/files/read?path=/etc/passwd&offset=0", 404, ""),
        ("/files/read", 400, "Expecting 'path=value' in query.\n"),
        ("/files/read?path=/master/log&offset=x", 400, "Failed to parse offset: 'x' is not a number.\n"),
        ("/files/read?path=/master/log&offset=-2", 400, "Negative offset provided: -2"),
        ("/files/browse?path=/master/log", 400, "'/master/log' is not a directory.\n"),
    ],
)
async def test_nothing_but_the_log_is_shown(client: Client, path: str, status: int, words: str) -> None:
    assert await client.get(path) == (status, words)


async def test_the_log_over_the_v1_calls(client: Client) -> None:
    status, read = await client.call("READ_FILE", {"path": "/master/log", "offset": 7, "length": 6})
    assert (status, read) == (200, {"size": len(LINES), "data": base64.b64encode(b"line 1").decode()})
    _, none = await client.call("READ_FILE", {"path": "/master/log", "offset": 0, "length": 0})
    assert none == {"size": len(LINES), "data": ""}
    assert await client.call("READ_FILE", {"path": "/etc/passwd", "offset": 0}) == (404, "")
    assert await client.call("LIST_FILES", {"path": "/etc"}) == (404, "")
    status, words = await client.call("READ_FILE", {"path": "/x"})
    assert (status, words) == (
        400,
        "Failed to convert JSON into Call protobuf: Missing required fields: read_file.offset",
    )


async def test_the_logging_level_changes_for_a_while(client: Client) -> None:
    logger = logging.getLogger("mesos_gpu")
    before = logger.level
    assert await client.get("/logging/toggle") == (200, "0\n")
    duration = {"nanoseconds": 50_000_000}
    assert await client.call("SET_LOGGING_LEVEL", {"level": 1, "duration": {"nanoseconds": 60 * 10**9}}) == (200, "")
    assert (logger.level, await client.call("GET_LOGGING_LEVEL")) == (logging.DEBUG, (200, {"level": 1}))
    assert await client.call("SET_LOGGING_LEVEL", {"level": 0, "duration": duration}) == (200, "")
    assert (logger.level, await client.get("/logging/toggle")) == (before, (200, "0\n"))
    assert await client.get("/logging/toggle?level=2&duration=1mins") == (200, "")
    assert await client.get("/logging/toggle") == (200, "2\n")
    assert await client.get("/logging/toggle?level=0&duration=1mins") == (200, "")
    assert logger.level == before
    assert await client.get("/logging/toggle?level=1") == (400, "Expecting 'duration=value' in query.\n")
    assert (await client.get("/logging/toggle?level=1&duration=soon"))[0] == 400
    assert (await client.get("/logging/toggle?level=-1&duration=1secs")) == (400, "'-1' < original level.\n")


async def test_paths_of_before_1_0_are_a_switch(client: Client, master: RunningMaster) -> None:
    for path in ("/state.json", "/master/state.json", "/master/tasks.json?limit=1", "/slaves.json", "/roles.json"):
        status, text = await client.get(path)
        assert status == 200
        assert isinstance(json.loads(text), dict)
    async with aiohttp.ClientSession() as session:
        strict = Client(session, master.url)
        assert await strict.get("/state.json") == (404, "404 Not Found.")
