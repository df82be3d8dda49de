"""Who listens while a cluster is measured: who never reads is found cut off, and what all of it costs is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from benchmarks.audience import Outcome, compared
from benchmarks.kept.figures import FILE_VARIABLE, read_figures
from benchmarks.listeners import GET, Listeners
from mesos_gpu.process import streams
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from mesos_gpu.process.streams import EventStream


@pytest.mark.parametrize("deaf", [0, 2])
async def test_listeners_say_who_was_cut_off_and_how_late_events_were(
    deaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 128 * 1024)
    opened: list[EventStream] = []

    async def listen(request: web.Request) -> web.StreamResponse:
        stream = await EventStream.open(request, content_type="text/event-stream", together=True)
        opened.append(stream)
        await stream.closed()
        return stream.response

    app = make_app()
    app.router.add_get("/v2/events", listen)
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    try:
        listeners = Listeners("Marathon", f"http://127.0.0.1:{endpoint.port}", GET)
        await listeners.start(3, deaf)
        event = b'data: {"words":"%b","timestamp":"2023-01-01T00:00:00.000Z"}\r\n\r\n' % (b"A" * 10_000)
        sent = 0
        while sent < 20 or sum(not stream._ended for stream in opened) > 3 - deaf:
            assert sent < 5000, "who never reads is kept"
            for stream in opened:
                stream.send_raw(event)
            sent += 1
            while listeners.events < sent:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        told = await listeners.told()
    finally:
        await endpoint.stop()
    assert (told["asleep"], told["asleep_cut_off"], told["awake_cut_off"]) == (deaf, deaf, 0)
    assert told["events"] == sent
    assert told["late_median_ms"] > 0


def outcome(told: dict[str, dict[str, float]], more: int = 0) -> Outcome:
    return Outcome(
        1000,
        {"master": 1.0 + more, "Marathon": 2.0 + more},
        {"master": 50_000 + 2000 * more, "Marathon": 60_000 + 1000 * more},
        {"GET": [1.0, 2.0 + more, 9.0]},
        told,
    )


@pytest.mark.parametrize(
    ("cut_off", "others", "wrong"),
    [
        (10.0, 0.0, None),
        (9.0, 0.0, "those who listen to the master are not cut off as they should be"),
        (10.0, 1.0, "those who listen to the master are not cut off as they should be"),
    ],
)
def test_what_listeners_cost_stands_beside_a_run_without_them(
    cut_off: float, others: float, wrong: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "figures"))
    said = {"events": 5.0, "late_median_ms": 3.0, "late_p99_ms": 30.0, "asleep": 10.0}
    told = {
        "master": {**said, "asleep_cut_off": cut_off, "awake_cut_off": others},
        "Marathon": {**said, "asleep_cut_off": 10.0, "awake_cut_off": 0.0},
    }
    assert compared(100, outcome({}), outcome(told, more=1)) == wrong
    kept = {each.key: each for each in read_figures((tmp_path / "figures").read_text())}
    assert kept["master, cut off"].reached() is (cut_off == 10.0)
    assert kept["master, KiB a listener"].value == 20.0
    beside = kept["Marathon, ms a task beside listeners"]
    assert (beside.value, beside.baseline, beside.ratio) == (3.0, 2.0, 1.5)
    assert (kept["GET, listeners"].value, kept["GET, listeners"].baseline) == (3.0, 2.0)
