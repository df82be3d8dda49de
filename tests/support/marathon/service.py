"""A whole Marathon in process: the scheduler over a real store, its API over real HTTP, and no Mesos."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.api.application import make_api
from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.state.actions import Launch
from mesos_gpu.marathon.state.events import Tick
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.process.endpoint import Endpoint
from tests.fakes.mesos_link import FakeMesosLink
from tests.support.marathon.builders import SETTINGS, T0, app, offer, status


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = T0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Answer:
    """An HTTP answer, read to its end."""

    status: int
    body: Any
    headers: Any


@dataclass
class Marathon:
    """One Marathon; `restart` makes another over the same file, as after a crash."""

    path: Path
    settings: Settings = SETTINGS
    credentials: str | None = None
    http_settings: HttpSettings = field(default_factory=HttpSettings)
    link: FakeMesosLink = field(default_factory=FakeMesosLink)
    clock: Clock = field(default_factory=Clock)
    info: dict[str, Any] = field(
        default_factory=lambda: {"name": "marathon", "marathon_config": {"master": "127.0.0.1:5050"}}
    )

    async def start(self) -> None:
        self.store = SqliteStore(self.path)
        self.scheduler = Scheduler(self.store, self.link, self.settings, clock=self.clock)
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.url = ""
        election = Election()
        self.app = make_api(
            self.scheduler,
            info=lambda: self.info,
            election=election,
            http=replace(self.http_settings, credentials=self.credentials),
        )
        await self.endpoint.start(self.app)
        election.address = f"127.0.0.1:{self.endpoint.port}"
        election.stand_alone()
        election.take()
        self.url = f"http://127.0.0.1:{self.endpoint.port}"
        self.http = aiohttp.ClientSession()
        self.work = asyncio.ensure_future(self.scheduler.run())
        await self.settled()
        await self.settled()  # that it was subscribed may come after the first of these, which was there before

    async def stop(self) -> None:
        self.work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.work
        await self.http.close()
        await self.endpoint.stop()
        self.store.close()

    async def restart(self) -> None:
        framework_id = self.link.framework_id
        await self.stop()
        self.link = FakeMesosLink()
        await self.start()
        assert framework_id == self.scheduler.state.lasting.framework_id

    async def call(self, method: str, path: str, document: Any = None, **options: Any) -> Answer:
        if document is not None:
            options["json"] = document
        async with self.http.request(method, self.url + path, **options) as answer:
            text = await answer.text()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return Answer(answer.status, await answer.json() if is_json else text, answer.headers)

    async def get(self, path: str) -> Any:
        answer = await self.call("GET", path)
        assert answer.status == 200, answer
        return answer.body

    async def launched(self, **changes: Any) -> list[str]:
        """Offer something, and return the ids of the tasks that were started on it."""
        self.link.offer(offer(**changes))
        launch: Launch = await self.link.next(Launch)
        return list(launch.task_ids)

    async def say(self, task_id: str, state: str = "TASK_RUNNING", **changes: Any) -> None:
        """Send a status, and wait until the scheduler has dealt with it."""
        self.link.status(dict(status(task_id, state, **changes).status))
        await self.settled()

    async def settled(self) -> None:
        """Wait until everything that was told so far is dealt with: the API answers in the same line."""
        await self.scheduler.ask(Tick())

    async def running(self, app_id: str = "/a", **changes: Any) -> list[str]:
        """Create an app, and let its tasks run."""
        answer = await self.call("POST", "/v2/apps", app(app_id, **changes))
        assert answer.status == 201, answer
        tasks = await self.launched(gpus=changes.get("gpus", 0))
        for task_id in tasks:
            await self.say(task_id)
        return tasks


@pytest.fixture
async def marathon(tmp_path: Path) -> AsyncIterator[Marathon]:
    made = Marathon(tmp_path / "marathon.db")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def make_marathon(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    made: list[Marathon] = []

    async def make(**options: Any) -> Marathon:
        made.append(Marathon(tmp_path / f"marathon{len(made)}.db", **options))
        await made[-1].start()
        return made[-1]

    yield make
    for each in made:
        await each.stop()
