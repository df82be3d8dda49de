"""What is counted and measured, and how it is shown."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.marathon.api.mesos_door import MesosDoor
from mesos_gpu.marathon.engine import sampler as module
from mesos_gpu.marathon.engine.event_bus import EventBus, Listener
from mesos_gpu.marathon.engine.metrics import Meter, Timer
from mesos_gpu.marathon.engine.sampler import Sampler
from mesos_gpu.marathon.state.events import Measured
from tests.support.marathon.builders import app, container, pod
from tests.support.marathon.service import Clock, Marathon


def test_a_meter_has_all_and_forgets_by_and_by() -> None:
    clock = Clock()
    meter = Meter(clock)
    for _ in range(50):
        meter.mark()
    clock.now_s += 5
    assert meter.rates() == {"m1_rate": 10, "m5_rate": 10, "m15_rate": 10, "mean_rate": 10}
    clock.now_s += 60
    rates = meter.rates()
    assert rates["m1_rate"] == 10 * math.exp(-1 / 12) ** 12
    assert rates["m1_rate"] < rates["m5_rate"] < rates["m15_rate"] < 10
    assert rates["mean_rate"] == 50 / 65


def test_a_timer_has_quantiles_of_the_latest() -> None:
    timer = Timer(Clock())
    assert timer.spread()["p99"] == 0
    for n in range(2000):
        timer.took(n / 1000)
    spread = timer.spread()
    assert (spread["min"], spread["max"], spread["p50"]) == (0.976, 1.999, 1.488)
    assert timer.meter.count == 2000


async def test_gpus_of_pods_and_jobs_count_too(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/pods", pod("/p", container("a", resources={"gpus": 2})))
    await marathon.launched(gpus=2)
    await marathon.call("POST", "/v1/jobs", {"id": "j", "run": {"cmd": "true", "gpus": 1}})
    await marathon.call("POST", "/v1/jobs/j/runs")
    gauges = {name: each["value"] for name, each in (await marathon.get("/metrics"))["gauges"].items()}
    assert (gauges["marathon.apps.active.gauge"], gauges["marathon.pods.active.gauge"]) == (0, 1)
    assert (gauges["marathon.gpus.in-use.gauge"], gauges["marathon.gpus.waiting.gauge"]) == (2, 1)


async def test_what_happens_is_counted_under_marathons_names(marathon: Marathon) -> None:
    marathon.clock.now_s += 7
    await marathon.running(gpus=1)
    await marathon.call("GET", "/v2/apps//no")
    shown = await marathon.get("/metrics")
    assert set(shown) == {"version", "gauges", "counters", "histograms", "meters", "timers"}
    counts = {name: each["count"] for name, each in shown["counters"].items()}
    assert counts["marathon.deployments.counter"] == 1
    assert counts["marathon.tasks.launched.counter"] == 1
    assert counts["marathon.mesos.offers.incoming.counter"] == 1
    assert counts["marathon.mesos.offers.used.counter"] == 1
    assert counts["marathon.mesos.calls.revive.counter"] == 1
    assert counts["marathon.mesos.task-updates.task-running.counter"] == 1
    assert counts["marathon.http.requests.size.counter.bytes"] > 0
    assert counts["marathon.http.responses.size.counter.bytes"] > 0
    gauges = {name: each["value"] for name, each in shown["gauges"].items()}
    assert gauges["marathon.apps.active.gauge"] == 1
    assert gauges["marathon.instances.running.gauge"] == 1
    assert gauges["marathon.instances.staged.gauge"] == 0
    assert gauges["marathon.gpus.in-use.gauge"] == 1
    assert gauges["marathon.groups.active.gauge"] == 1
    assert gauges["marathon.http.requests.active.gauge"] == 1
    assert gauges["marathon.uptime.gauge.seconds"] == 7
    assert shown["timers"]["marathon.http.requests.post.duration.timer.seconds"]["count"] == 1
    assert shown["timers"]["marathon.http.requests.duration.timer.seconds"]["count"] == 2
    assert shown["meters"]["marathon.http.responses.4xx.rate.meter"]["count"] == 1


async def test_suspensions_and_what_was_refused_are_counted_and_gpus_that_are_put_away_are_not_in_use(
    marathon: Marathon,
) -> None:
    (task,) = await marathon.running(gpus=2)
    for message in ("suspended: by hand", "not resumed: no GPU is free", "resumed on GPU 0", "suspended: again"):
        await marathon.say(task, message=message)
        await marathon.settled()
    shown = await marathon.get("/metrics")
    kinds = ("suspended", "resumed", "not-suspended", "not-resumed", "preempted")
    counts = {kind: shown["counters"][f"marathon.instances.{kind}.counter"]["count"] for kind in kinds}
    assert counts == {"suspended": 2, "resumed": 1, "not-suspended": 0, "not-resumed": 1, "preempted": 0}
    gauges = {name: each["value"] for name, each in shown["gauges"].items()}
    assert gauges["marathon.instances.suspended.gauge"] == 1
    assert gauges["marathon.gpus.in-use.gauge"] == 0
    text = (await marathon.call("GET", "/metrics/prometheus")).body
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["marathon_instances_not_resumed_counter"].samples[0].value == 1


async def test_prometheus_reads_the_same(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/apps", app(gpus=1))
    for path, accept in (("/metrics/prometheus", "*/*"), ("/metrics", "text/plain;version=0.0.4")):
        answer = await marathon.call("GET", path, headers={"Accept": accept})
        assert answer.headers["Content-Type"].startswith("text/plain")
        families = {family.name: family for family in text_string_to_metric_families(answer.body)}
        assert families["marathon_apps_active_gauge"].samples[0].value == 1
        assert families["marathon_gpus_waiting_gauge"].samples[0].value == 1
        assert families["marathon_deployments_counter"].samples[0].value == 1
        assert "marathon_http_responses_5xx_rate_m1_rate_meter" in families
        timer = families["marathon_http_requests_post_duration_timer_seconds"]
        samples = {(sample.name[len(timer.name) :], sample.labels.get("quantile")) for sample in timer.samples}
        assert {("_count", None), ("_sum", None), ("", "0.99")} <= samples


async def test_who_asks_for_json_gets_it(marathon: Marathon) -> None:
    answer = await marathon.call("GET", "/metrics", headers={"Accept": "application/json, text/plain;q=0.5"})
    assert answer.body["version"] == "4.0.0"


KINDS = ("a", "b", "c")


def read(data: bytes) -> list[tuple[str, int]]:
    """The events of Server-Sent Events as (type, number)."""
    found = []
    for frame in data.decode().split("\r\n\r\n")[:-1]:
        event, body = frame.split("\r\n")
        document = json.loads(body.removeprefix("data: "))
        assert document["eventType"] == event.removeprefix("event: ")
        found.append((document["eventType"], document["number"]))
    return found


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=12),
    st.lists(st.frozensets(st.sampled_from(KINDS)), max_size=5),
)
def test_each_listener_gets_what_it_wants_in_order(
    events: list[tuple[str, bool]], wishes: list[Collection[str]]
) -> None:
    bus = EventBus(lambda: 0.0)
    got: list[list[bytes]] = [[] for _ in wishes]
    for pieces, kinds in zip(got, wishes, strict=True):
        bus.add(Listener(pieces.append, kinds))
    for number, (kind, hold) in enumerate(events):
        bus.publish(kind, {"number": number}, hold=hold)
    bus.flush()
    for pieces, kinds in zip(got, wishes, strict=True):
        expected = [(kind, number) for number, (kind, _) in enumerate(events) if not kinds or kind in kinds]
        assert read(b"".join(pieces)) == expected
        assert all(pieces)
        assert len(pieces) <= 1 + sum(not hold for _, hold in events)


def test_those_who_want_the_same_share_what_is_sent_to_them() -> None:
    bus, one, other = EventBus(lambda: 0.0), list[bytes](), list[bytes]()
    bus.add(Listener(one.append, frozenset()))
    bus.add(Listener(other.append, frozenset()))
    for number in range(3):
        bus.publish("a", {"number": number}, hold=True)
    bus.flush()
    assert len(one) == len(other) == 1
    assert one[0] is other[0], "a hundred listeners that are behind keep one copy"


def test_who_comes_later_or_has_left_gets_nothing() -> None:
    bus, got = EventBus(lambda: 0.0), list[bytes]()
    listener = Listener(got.append, frozenset())
    bus.publish("a", {"number": 1})
    bus.add(listener)
    bus.remove(listener)
    bus.publish("a", {"number": 2})
    assert got == []


async def no_slaves() -> list[Any]:
    raise Unavailable("the master does not answer")


async def test_many_agents_are_asked_in_parts_and_told_of_part_by_part(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 2)
    await marathon.call("POST", "/v2/apps", app(instances=5, constraints=[["hostname", "UNIQUE"]]))
    tasks = []
    for number in range(5):
        tasks += await marathon.launched(offer_id=f"O{number}", agent=f"A{number}", host=f"h{number}")
    for task_id in tasks:
        await marathon.say(task_id)
    now_s = marathon.scheduler.clock()
    asked: list[str] = []
    told: list[Measured] = []
    pauses: list[tuple[float, int]] = []
    tell = marathon.scheduler.tell
    monkeypatch.setattr(marathon.scheduler, "tell", lambda event: (told.append(event), tell(event)))
    real = asyncio.sleep

    async def sleep(delay_s: float, *rest: Any) -> None:
        if delay_s:
            pauses.append((delay_s, len(asked)))
        await real(0, *rest)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)

    async def ask(agent_id: str, path: str) -> Any:
        asked.append(agent_id)
        if agent_id == "A3":
            raise Unavailable("A3 does not answer")
        gpus = [{"utilization_percent": 0}]
        return [{"executor_id": task, "container_id": task, "statistics": {}, "gpus": gpus} for task in tasks]

    sampler = Sampler(marathon.scheduler, ask, no_slaves, interval_s=1)
    await sampler.look()
    assert sorted(asked) == [f"A{number}" for number in range(5)]
    assert pauses == [(module._PAUSE_S, 2), (module._PAUSE_S, 4)]
    asked.clear()
    pauses.clear()
    told.clear()
    marathon.scheduler.clock = lambda: now_s + 10
    await sampler.look()
    assert sum(len(event.readings) for event in told) == 4
    assert max(len(event.readings) for event in told) <= 2, "a part at a time, so that none takes long to count"
    assert sampler.silent == {"A3": "A3 does not answer"}
    assert marathon.scheduler.metrics.measured["gpus.held-idle.gauge"] == 4


async def test_where_agents_are_is_asked_once_for_all_who_want_to_know(
    serve: Callable[[Mapping[str, Any]], Any],
) -> None:
    asked, agents = 0, [{"id": f"S{n}", "pid": f"slave(1)@127.0.0.1:{6000 + n}"} for n in range(9)]

    async def slaves(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return web.json_response({"slaves": agents})

    url = await serve({"/slaves": slaves})
    door = MesosDoor(lambda: url)
    try:
        found = await asyncio.gather(*(door.agent(f"S{n}", "containers", None) for n in range(9)))
        assert (found[3], asked) == (URL("http://127.0.0.1:6003/containers"), 1)
        with pytest.raises(NotFound):
            await door.agent("S9", "containers", None)
        assert asked == 2, "it may have come since"
    finally:
        await door.close()


@pytest.fixture
async def serve() -> Any:
    """Return what serves handlers by path on the loopback, until the test is over."""
    runners: list[web.AppRunner] = []

    async def start(handlers: Mapping[str, Any]) -> str:
        application = web.Application()
        for path, handler in handlers.items():
            application.router.add_get(path, handler)
        runner = web.AppRunner(application)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()
