"""What is counted and measured, and how it is shown."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

from mesos_gpu.marathon.engine.metrics import Meter, Timer
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
