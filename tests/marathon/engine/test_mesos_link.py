"""What every MesosLink does: the real one against a master over HTTP, and the fake that other tests use."""

from __future__ import annotations

import asyncio
import base64
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pymesos
import pytest
from aiohttp import web

from mesos_gpu.marathon.engine.call_connection import Answered, CallConnection
from mesos_gpu.marathon.engine.master_info import address, region
from mesos_gpu.marathon.engine.mesos_link import LinkEvent, MesosLink
from mesos_gpu.marathon.engine.pymesos_link import PymesosLink
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Decline,
    Kill,
    Launch,
    Reconcile,
    Resubscribe,
    Revive,
    Suppress,
    TaskGroup,
    UpdateRoles,
)
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Disconnected,
    FrameworkError,
    Offered,
    Rescinded,
    Status,
    Subscribed,
)
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from mesos_gpu.process.secure.tls import Tls
from mesos_gpu.process.tunnel import Tunnel
from tests.fakes.mesos_link import FakeMesosLink
from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.marathon.builders import offer, status
from tests.support.tls import Authority

FRAMEWORK = {"user": "root", "name": "marathon", "roles": ["slave_public"], "failover_timeout": 604800.0}


class Bench:
    """A link with the master behind it; what it tells comes out of `next`."""

    def __init__(self, link: MesosLink, master: SchedulerMaster | FakeMesosLink) -> None:
        self.link, self.master = link, master
        self._news: asyncio.Queue[LinkEvent] = asyncio.Queue()

    def start(self, framework_id: str | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.link.start(framework_id, lambda event: loop.call_soon_threadsafe(self._news.put_nowait, event))

    async def next(self, kind: type[Any]) -> Any:
        while True:
            event = await asyncio.wait_for(self._news.get(), 60)
            if isinstance(event, kind):
                return event


@pytest.fixture(params=["real", "fake"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "fake":
        fake = FakeMesosLink()
        yield Bench(fake, fake)
        fake.stop()
        return
    master = SchedulerMaster()
    await master.start()
    made = Bench(PymesosLink(master.address, lambda: FRAMEWORK), master)
    yield made
    await asyncio.to_thread(made.link.stop)
    await master.stop()


@pytest.fixture
async def real() -> AsyncIterator[Callable[..., Awaitable[tuple[Bench, SchedulerMaster]]]]:
    """A factory of benches with the real link; each has a master of its own."""
    made: list[Bench] = []

    async def make(**how: Any) -> tuple[Bench, SchedulerMaster]:
        master = SchedulerMaster()
        await master.start()
        made.append(Bench(PymesosLink(master.address, lambda: FRAMEWORK, **how), master))
        return made[-1], master

    yield make
    for each in made:
        await asyncio.to_thread(each.link.stop)
        await each.master.stop()  # type: ignore[misc]


async def test_a_new_framework_is_told_its_id(bench: Bench) -> None:
    bench.start()
    subscribed = await bench.next(Subscribed)
    assert subscribed.framework_id
    assert not subscribed.again


async def test_a_known_framework_keeps_its_id(bench: Bench) -> None:
    bench.start("F7")
    assert await bench.next(Subscribed) == Subscribed("F7", subscribed_at(bench), again=True)


async def test_offers_and_statuses_come_as_mesos_sent_them(bench: Bench) -> None:
    bench.start()
    await bench.next(Subscribed)
    news = dict(status("t").status)
    bench.master.offer(offer("O1"))
    bench.master.rescind("O1")
    bench.master.status(news)
    assert list((await bench.next(Offered)).offers) == [offer("O1")]
    assert await bench.next(Rescinded) == Rescinded("O1")
    assert (await bench.next(Status)).status == news


def test_what_only_the_standard_library_reads_is_read_all_the_same() -> None:
    assert pymesos.process.json.loads('{"message": "half of a pair: \\ud83d"}') == {"message": "half of a pair: \ud83d"}
    with pytest.raises(ValueError, match="Expecting"):
        pymesos.process.json.loads("{")


async def test_a_broken_connection_is_told_and_made_anew_with_the_same_id(bench: Bench) -> None:
    bench.start()
    first = await bench.next(Subscribed)
    bench.master.break_connection()
    await bench.next(Disconnected)
    second = await bench.next(Subscribed)
    assert second.framework_id == first.framework_id


async def test_a_framework_can_start_over(bench: Bench) -> None:
    bench.start()
    first = await bench.next(Subscribed)
    bench.link.call(Resubscribe())
    second = await bench.next(Subscribed)
    assert second.framework_id != first.framework_id
    assert not second.again


async def test_a_call_without_a_master_comes_back(bench: Bench) -> None:
    if isinstance(bench.master, FakeMesosLink):
        bench.master._master_up = False
    else:
        await bench.master.endpoint.stop()
    bench.start()
    bench.link.call(Revive())
    failed = await bench.next(CallFailed)
    assert failed.call == Revive()
    assert failed.problem


def subscribed_at(bench: Bench) -> str:
    return bench.master.address if isinstance(bench.master, SchedulerMaster) else "127.0.0.1:5050"


# Only the real one: what goes over the wire, and pymesos' traps


T_ON_S0 = {"task_id": {"value": "t"}, "agent_id": {"value": "S0"}}


async def test_every_call_is_sent_as_mesos_wants_it(real: Any) -> None:
    bench, master = await real()
    bench.start()
    framework_id = {"value": (await bench.next(Subscribed)).framework_id}
    news = dict(status("t", agent_id={"value": "S0"}).status)
    for call in (
        Launch("O1", [{"name": "x", "task_id": {"value": "t"}}], 5.0),
        Decline(["O2", "O3"], 120.0),
        Revive(),
        Suppress(),
        Kill("t", "S0"),
        Acknowledge(news),
        Reconcile({"t": "S0"}),
        Reconcile({}),
    ):
        bench.link.call(call)
    sent = [await asyncio.wait_for(master.calls.get(), 60) for _ in range(8)]
    assert all(call.pop("framework_id") == framework_id for call in sent)
    launch = {"type": "LAUNCH", "launch": {"task_infos": [{"name": "x", "task_id": {"value": "t"}}]}}
    assert sent == [
        {
            "type": "ACCEPT",
            "accept": {
                "offer_ids": [{"value": "O1"}],
                "operations": [launch],
                "filters": {"refuse_seconds": 5.0},
            },
        },
        {
            "type": "DECLINE",
            "decline": {"offer_ids": [{"value": "O2"}, {"value": "O3"}], "filters": {"refuse_seconds": 120.0}},
        },
        {"type": "REVIVE"},
        {"type": "SUPPRESS"},
        {"type": "KILL", "kill": T_ON_S0},
        {
            "type": "ACKNOWLEDGE",
            "acknowledge": {"agent_id": {"value": "S0"}, "task_id": {"value": "t"}, "uuid": news["uuid"]},
        },
        {"type": "RECONCILE", "reconcile": {"tasks": [T_ON_S0]}},
        {"type": "RECONCILE", "reconcile": {"tasks": []}},
    ]


async def test_tasks_and_groups_of_one_offer_go_in_one_call(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    single, grouped = ({"name": "x", "task_id": {"value": task_id}} for task_id in ("t", "g"))
    executor = {"executor_id": {"value": "e"}, "type": "DEFAULT"}
    bench.link.call(Launch("O1", [single], 5.0, [TaskGroup(executor, [grouped])]))
    bench.link.call(Launch("O2", [], 5.0, [TaskGroup(executor, [grouped])]))
    first, second = [(await asyncio.wait_for(master.calls.get(), 60))["accept"] for _ in range(2)]
    group = {"type": "LAUNCH_GROUP", "launch_group": {"executor": executor, "task_group": {"tasks": [grouped]}}}
    assert first == {
        "offer_ids": [{"value": "O1"}],
        "operations": [{"type": "LAUNCH", "launch": {"task_infos": [single]}}, group],
        "filters": {"refuse_seconds": 5.0},
    }
    assert second["operations"] == [group]


async def test_a_status_is_not_acknowledged_before_it_is_asked_for(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    master.status(dict(status("t").status))
    await bench.next(Status)
    bench.link.call(Revive())
    assert (await asyncio.wait_for(master.calls.get(), 60))["type"] == "REVIVE"


async def test_the_framework_is_described_as_given(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    assert (await master.next_subscription())["subscribe"]["framework_info"] == FRAMEWORK


async def test_two_links_in_one_process_do_not_share_headers(real: Any) -> None:
    benches = [await real() for _ in range(2)]
    for bench, _ in benches:
        bench.start()
        await bench.next(Subscribed)
    # Both streams are named stream-0 by their masters; make them differ.
    benches[0][1].break_connection()
    await benches[0][0].next(Disconnected)
    await benches[0][0].next(Subscribed)
    for bench, master in (*benches, benches[0]):
        bench.link.call(Revive())
        assert (await master.next_call("REVIVE"))["type"] == "REVIVE"


async def test_a_stop_does_not_tear_the_framework_down(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    bench.link.call(Revive())
    await asyncio.to_thread(bench.link.stop)
    assert (await asyncio.wait_for(master.calls.get(), 60))["type"] == "REVIVE"
    assert master.calls.empty()


async def test_a_refused_call_comes_back_and_the_next_one_goes_through(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    master.fail_calls_with = 400
    bench.link.call(Kill("t", "S0"))
    assert (await bench.next(CallFailed)).call == Kill("t", "S0")
    master.fail_calls_with = None
    bench.link.call(Kill("u", "S0"))
    assert (await master.next_call("KILL"))["kill"]["task_id"] == {"value": "u"}


async def test_a_connection_that_was_closed_for_being_idle_costs_nothing(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    bench.link.call(Revive())
    await master.next_call("REVIVE")
    master.hang_up_on_next_call = True
    bench.link.call(Kill("t", "S0"))
    assert (await master.next_call("KILL"))["kill"]["task_id"] == {"value": "t"}


async def test_a_launch_is_never_sent_twice(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    master.hang_up_on_next_call = True
    launch = Launch("O1", [{"name": "x", "task_id": {"value": "t"}}], 5.0)
    bench.link.call(launch)
    assert (await bench.next(CallFailed)).call == launch
    bench.link.call(Revive())
    assert (await asyncio.wait_for(master.calls.get(), 60))["type"] == "REVIVE"


async def test_a_master_that_falls_silent_is_left(real: Any) -> None:
    bench, _ = await real(heartbeat_s=0.02, silent_heartbeats=10)
    bench.start()
    first = await bench.next(Subscribed)
    await bench.next(Disconnected)
    assert (await bench.next(Subscribed)).framework_id == first.framework_id


async def test_errors_of_the_master_are_told(real: Any) -> None:
    bench, master = await real()
    bench.start()
    await bench.next(Subscribed)
    master.send({"type": "ERROR", "error": {"message": "Framework has been removed"}})
    assert await bench.next(FrameworkError) == FrameworkError("Framework has been removed")


async def test_a_master_that_is_not_ready_is_not_stormed(real: Any) -> None:
    """pymesos alone makes more than a thousand attempts a second."""
    bench, master = await real()
    master.refuse_with = 503
    bench.start()
    for _ in range(4):
        await bench.next(Disconnected)
    attempts = master.attempts
    master.refuse_with = None
    await bench.next(Subscribed)
    # Pauses of 50, 100, 200 and 400 ms: a handful of attempts, however slow this machine is.
    assert attempts <= 6


@pytest.fixture
def interrupts() -> Any:
    """An aborting driver raises SIGINT in the main thread: take it as the program does."""
    taken: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    yield taken
    signal.signal(signal.SIGINT, before)


async def test_an_aborted_driver_is_replaced_and_its_interrupt_known(real: Any, interrupts: list[int]) -> None:
    bench, master = await real()
    master.refuse_with = 403
    bench.start()
    await bench.next(Disconnected)
    master.refuse_with = None
    await bench.next(Subscribed)
    link = bench.link
    assert isinstance(link, PymesosLink)
    bench.link.call(Revive())
    await master.next_call("REVIVE")
    assert interrupts
    assert link.consume_interrupt()
    assert not link.consume_interrupt()


async def test_an_event_that_pymesos_chokes_on_does_not_end_the_link(real: Any, interrupts: list[int]) -> None:
    bench, master = await real()
    bench.start()
    first = await bench.next(Subscribed)
    failure = {"agent_id": {"value": "S0"}, "executor_id": {"value": "e"}}
    master.send({"type": "FAILURE", "failure": failure})
    assert (await bench.next(Subscribed)).framework_id == first.framework_id


async def test_importing_pymesos_leaves_the_interrupt_handler_alone() -> None:
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT)\n"
        "import mesos_gpu.marathon.engine.driver\n"
        "assert signal.getsignal(signal.SIGINT) is before"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True)


async def test_other_roles_are_told_and_kept_when_it_connects_again(
    real: Callable[[], Awaitable[tuple[Bench, SchedulerMaster]]],
) -> None:
    bench, master = await real()
    bench.start()
    framework_id = (await bench.next(Subscribed)).framework_id
    await master.next_subscription()
    bench.link.call(UpdateRoles(["dev", "slave_public"]))
    update = (await master.next_call("UPDATE_FRAMEWORK"))["update_framework"]["framework_info"]
    assert update["roles"] == ["dev", "slave_public"]
    assert update["id"] == {"value": framework_id}
    assert update["failover_timeout"] == FRAMEWORK["failover_timeout"]
    master.break_connection()
    again = await master.next_subscription()
    assert again["subscribe"]["framework_info"]["roles"] == ["dev", "slave_public"]


async def test_a_master_that_asks_who_we_are_is_told_with_every_call() -> None:
    master = SchedulerMaster()
    await master.start()
    link = PymesosLink(master.address, lambda: {**FRAMEWORK, "principal": "ops"}, secret="s3cret")
    bench = Bench(link, master)
    bench.start()
    try:
        await bench.next(Subscribed)
        link.call(Revive())
        await master.next_call("REVIVE")
    finally:
        await asyncio.to_thread(link.stop)
        await master.stop()
    basic = "Basic " + base64.b64encode(b"ops:s3cret").decode()
    assert (master.shown["SUBSCRIBE"], master.shown["REVIVE"]) == (basic, basic)
    assert master.subscriptions[0]["subscribe"]["framework_info"]["principal"] == "ops"


async def test_a_master_that_speaks_tls_alone_is_reached_through_a_tunnel_also_after_a_redirect(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("node")
    settings = TlsSettings(str(certificate), str(key), ca_file=str(authority.certificate), verify_server=True)
    tls = Tls(replace(settings, verify_ip=True, require_client=True))
    master, tunnel = SchedulerMaster(tls), Tunnel(tls)
    await master.start()

    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"//{master.address}/api/v1/scheduler"})

    standby, app = Endpoint("127.0.0.1", 0, tls=tls), make_app()
    app.router.add_post("/api/v1/scheduler", redirect)
    await standby.start(app)
    link = PymesosLink(f"https://127.0.0.1:{standby.port}", lambda: FRAMEWORK, through=tunnel.through)
    bench = Bench(link, master)
    try:
        bench.start()
        assert (await bench.next(Subscribed)).master == master.address
        link.call(Revive())
        assert (await asyncio.wait_for(master.calls.get(), 60))["type"] == "REVIVE"
        master.offer(offer())
        assert len((await bench.next(Offered)).offers) == 1
    finally:
        await asyncio.to_thread(link.stop)
        await tunnel.close()
        await standby.stop()
        await master.stop()


def test_address_and_region() -> None:
    info = {"hostname": "m", "port": 5050}
    assert address(info) == "m:5050"
    assert region(info) is None
    assert region({**info, "domain": {"fault_domain": {"region": {"name": "us"}, "zone": {"name": "a"}}}}) == "us"


News = asyncio.Queue[LinkEvent]


@pytest.fixture
async def news() -> News:
    return asyncio.Queue()


@pytest.fixture
async def link(master: SchedulerMaster, news: News) -> AsyncIterator[PymesosLink]:
    """A link that the master has taken in."""
    loop = asyncio.get_running_loop()
    made = PymesosLink(master.address, lambda: {"user": "root", "name": "marathon", "roles": ["*"]})
    made.start(None, lambda event: loop.call_soon_threadsafe(news.put_nowait, event))
    while not isinstance(await asyncio.wait_for(news.get(), 60), Subscribed):
        pass
    yield made
    await asyncio.to_thread(made.stop)


async def failure(news: News) -> CallFailed:
    while True:
        event = await asyncio.wait_for(news.get(), 60)
        if isinstance(event, CallFailed):
            return event


async def test_acknowledgements_that_follow_one_another_go_together_and_each_once(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    for number in range(150):
        link.call(Acknowledge(status(f"t{number}").status))
        if number == 99:
            link.call(Revive())
    got = [await asyncio.wait_for(master.calls.get(), 60) for _ in range(151)]
    kinds = [call["type"] for call in got]
    assert (kinds.index("REVIVE"), kinds.count("ACKNOWLEDGE")) == (100, 150)
    told = [call["acknowledge"]["task_id"]["value"] for call in got if call["type"] == "ACKNOWLEDGE"]
    assert told == [f"t{number}" for number in range(150)]
    assert got[0]["acknowledge"] == {"task_id": {"value": "t0"}, "agent_id": {"value": "S0"}, "uuid": "dQ=="}


async def test_acknowledgements_are_sent_again_where_the_master_hangs_up_on_them(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    master.hang_up_on_next_call = True
    for number in range(3):
        link.call(Acknowledge(status(f"t{number}").status))
    got = [await asyncio.wait_for(master.calls.get(), 60) for _ in range(3)]
    assert [call["acknowledge"]["task_id"]["value"] for call in got] == ["t0", "t1", "t2"]


async def test_each_acknowledgement_that_is_refused_is_told_of(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    master.fail_calls_with = 400
    calls = [Acknowledge(status(f"t{number}").status) for number in range(3)]
    for call in calls:
        link.call(call)
    failed = [await failure(news) for _ in calls]
    assert [each.call for each in failed] == calls
    assert all("400" in each.problem and "no" in each.problem for each in failed)


ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
HEADERS = {"Content-Type": "application/json", "Mesos-Stream-Id": "s1"}


class Script:
    """A server that takes so many requests of a connection, then sends what it is told and closes, for each in turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, bytes]] = []
        self.requests: list[list[tuple[str, bytes]]] = []
        self.heard = threading.Event()
        """Set when a request is there."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(60)
        self.port = self._listening.getsockname()[1]
        self._thread: threading.Thread | None = None

    def play(self, *turns: tuple[int, bytes]) -> None:
        self.turns = list(turns)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for count, answer in self.turns:
            connection, _ = self._listening.accept()
            connection.settimeout(60)
            with connection, connection.makefile("rb") as reader:
                taken: list[tuple[str, bytes]] = []
                self.requests.append(taken)
                for _ in range(count):
                    lines = list(iter(reader.readline, b"\r\n")) if reader.peek(1) else []
                    if not lines:
                        return  # the other side has hung up
                    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"Content-Length"))
                    taken.append((b"".join(lines).decode(), reader.read(length)))
                    self.heard.set()
                connection.sendall(answer)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(60)
        self._listening.close()


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    yield made
    made.close()


@pytest.fixture
def connection(script: Script) -> Iterator[CallConnection]:
    made = CallConnection("127.0.0.1", script.port, 60.0)
    yield made
    made.close()


def post(connection: CallConnection, *bodies: bytes) -> list[Answered]:
    return list(connection.posted("/api/v1/scheduler", HEADERS, bodies))


def test_all_calls_are_sent_before_one_is_answered_and_the_answers_come_in_order(
    script: Script, connection: CallConnection
) -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nno!"
    chunked = b"HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    script.play(
        (5, ACCEPTED + refused + b"HTTP/1.1 100 Continue\r\n\r\n" + chunked + b"HTTP/1.1 204 x\r\n\r\n" + ACCEPTED)
    )
    assert post(connection, b"1", b"22", b"333", b"4", b"5") == [
        Answered(202, b""),
        Answered(400, b"no!"),
        Answered(503, b"abcde"),
        Answered(204, b""),
        Answered(202, b""),
    ]
    ((head, first), *others), *_ = script.requests
    assert head.startswith("POST /api/v1/scheduler HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "Mesos-Stream-Id: s1\r\n" in head
    assert [first, *(body for _, body in others)] == [b"1", b"22", b"333", b"4", b"5"]


def test_the_connection_is_kept_and_made_again_where_the_master_closes_it(
    script: Script, connection: CallConnection
) -> None:
    closing = b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    script.play((1, closing), (1, b"HTTP/1.1 202 Accepted\r\n\r\nto the end"))
    assert post(connection, b"1") == [Answered(202, b"")]
    assert post(connection, b"2") == [Answered(202, b"to the end")]
    assert [[body for _, body in taken] for taken in script.requests] == [[b"1"], [b"2"]]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionError),
        (ACCEPTED, ConnectionError),
        (ACCEPTED.replace(b"Content", b"Connection: close\r\nContent"), ConnectionError),
        (ACCEPTED + b"HTTP/1.1 202", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: 5\r\n\r\nabc", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: many\r\n\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: 99999999\r\n\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\n" + b"a: b\r\n" * 101, HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nA: " + b"b" * 70_000, HTTPException),
        (ACCEPTED + b"RTSP/1.0 200 OK\r\n\r\n", HTTPException),
    ],
)
def test_whatever_is_no_answer_breaks_the_connection_and_the_next_call_makes_another(
    script: Script, connection: CallConnection, answer: bytes, error: type[Exception]
) -> None:
    script.play((2, answer), (1, ACCEPTED))
    answered = []
    with pytest.raises(error):
        answered += [each.status for each in connection.posted("/", HEADERS, [b"1", b"2"])]
    assert post(connection, b"3") == [Answered(202, b"")]


def test_who_waits_for_an_answer_is_told_when_another_thread_hangs_up(
    script: Script, connection: CallConnection
) -> None:
    def hang_up() -> None:
        script.heard.wait(60)
        connection.close()

    closing = threading.Thread(target=hang_up)
    closing.start()
    play: Callable[..., None] = script.play
    play((2, b""))  # waits for a second call, which never comes
    with pytest.raises((ConnectionError, HTTPException)):
        list(connection.posted("/", HEADERS, [b"1"]))
    closing.join(60)
