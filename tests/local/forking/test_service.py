"""A service of the box as a process: real processes, with a double in place of the program."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking import service as service_module
from mesos_gpu.local.forking.forks import Forked, Forks
from mesos_gpu.local.forking.service import ServiceProcess
from mesos_gpu.local.forking.signals import held_back, leaving
from mesos_gpu.local.plan import ServiceSpec
from mesos_gpu.local.record import is_alive
from tests.support.golden import Golden
from tests.support.places import ROOT
from tests.support.tls import Authority


class Started:
    """Makes services and stops them all at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = asyncio.Event()
        self.made: list[ServiceProcess] = []
        self.forks = Forks(folder, modules=[])

    def service(self, *flags: str, port: int = 0) -> ServiceProcess:
        spec = ServiceSpec("double", "tests.local.forking.service_double", port, "port", flags)
        made = ServiceProcess(spec, self.forks, self.folder, self.folder / "double.log", self.changed.set)
        self.made.append(made)
        return made


@pytest.fixture
async def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Started]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(service_module, "next_delay_s", lambda *_: 0.01)
    holder = Started(tmp_path)
    yield holder
    for made in holder.made:
        await made.stop(signal.SIGKILL, 10)
    await holder.forks.close()


async def test_a_service_is_started_when_its_ready_file_is_there(started: Started) -> None:
    service = await started.service().start()
    assert service.url == "http://127.0.0.1:40001"
    assert is_alive(service.pid, service.started)


async def test_a_service_of_the_box_speaks_no_tls_whatever_the_environment_says(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LIBPROCESS_SSL_ENABLED", "LIBPROCESS_SSL_KEY_FILE", "SSL_ENABLED", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, "1")
    service = await started.service().start()
    environ = Path(f"/proc/{service.pid}/environ").read_bytes().split(b"\0")
    assert b"SSL_CERT_DIR=1" in environ
    assert not [line for line in environ if b"SSL_ENABLED" in line or line.startswith(b"LIBPROCESS_SSL_")]


async def test_a_service_that_dies_comes_back_on_the_port_it_had(started: Started) -> None:
    made = started.service()
    first = await made.start("--master=127.0.0.1:5050")
    os.kill(first.pid, signal.SIGKILL)
    await started.changed.wait()
    second = made.service
    assert second is not None
    assert second.pid != first.pid
    assert second.url == first.url
    assert b"--port=40001" in Path(f"/proc/{second.pid}/cmdline").read_bytes()
    assert b"--master=127.0.0.1:5050" in Path(f"/proc/{second.pid}/cmdline").read_bytes()


async def test_a_service_that_cannot_start_is_refused_in_its_own_words(started: Started, golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        await started.service("--fail=port 5050 is taken").start()
    assert str(refused.value) == golden


async def test_a_stopped_service_stays_stopped(started: Started) -> None:
    made = started.service()
    service = await made.start()
    await made.stop(signal.SIGTERM, 10)
    assert not is_alive(service.pid, service.started)
    assert not started.changed.is_set()
    await made.stop(signal.SIGTERM, 10)


async def test_a_service_that_ignores_its_signal_is_killed(started: Started) -> None:
    made = started.service("--stubborn=1")
    service = await made.start()
    await made.stop(signal.SIGTERM, 0.05)
    assert not is_alive(service.pid, service.started)


async def test_a_service_that_is_stopped_while_it_starts_does_not_come_back(started: Started) -> None:
    made = started.service("--never=1")
    starting = asyncio.ensure_future(made.start())
    while made._process is None:  # noqa: ASYNC110 - nothing tells of a spawned process
        await asyncio.sleep(0)
    await made.stop(signal.SIGTERM, 10)
    with pytest.raises(Unavailable):
        await starting
    assert made._process.returncode is not None
    assert made._watch is None


async def test_a_full_disk_does_not_end_supervision(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    made = started.service()
    first = await made.start()
    start, refusals = started.forks.start, [errno.ENOSPC, errno.ENOMEM]

    async def refusing(module: str, flags: Sequence[str], name: str, log: int) -> Forked:
        if refusals:
            raise OSError(refusals.pop(), "no room")
        return await start(module, flags, name, log)

    monkeypatch.setattr(started.forks, "start", refusing)
    os.kill(first.pid, signal.SIGKILL)
    await asyncio.wait_for(started.changed.wait(), 30)
    assert not refusals
    assert made.service is not None
    assert is_alive(made.service.pid, made.service.started)
    assert made.service.pid != first.pid


async def test_that_a_service_is_back_is_written_down_once_there_is_room(started: Started) -> None:
    full = [True, True]

    def changed() -> None:
        if full:
            full.pop()
            raise Unavailable("no space left on device")
        started.changed.set()

    made = started.service()
    made._changed = changed
    first = await made.start()
    os.kill(first.pid, signal.SIGKILL)
    await asyncio.wait_for(started.changed.wait(), 30)
    assert made.service is not None
    os.kill(made.service.pid, signal.SIGKILL)
    started.changed.clear()
    await asyncio.wait_for(started.changed.wait(), 30)


def test_what_is_held_back_is_heard_at_the_end_once() -> None:
    done = []

    def begin() -> None:
        with held_back():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        done.append("not this")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # that of a test before may be another's
    try:
        with pytest.raises(KeyboardInterrupt):
            begin()
        assert done == ["all of it"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_leaves_does_so_by_an_exception(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as left, leaving(), held_back():
        signal.raise_signal(number)
    assert left.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_is_ignored_stays_so_as_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with leaving(), held_back():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_that_is_begun_meanwhile_hears_them() -> None:
    """As it would not if they were blocked: that is inherited."""
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGHUP))"
    with held_back():
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["set()", "Handlers.SIG_DFL"] or said.split() == ["set()", "0"], said


CONNECT = """
import asyncio, ssl, sys
from mesos_gpu.local.forking.later import CertificatesLater, read_without
read_without()
import aiohttp
from aiohttp import connector, web

contexts = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED
for context in contexts:
    assert type(context) is CertificatesLater and not context.get_ca_certs(), context
assert contexts[0].verify_mode is ssl.CERT_REQUIRED and contexts[0].check_hostname

async def main():
    app = web.Application()
    async def hello(request):
        return web.Response(text="hello")
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*sys.argv[1:3])
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.get(f"https://localhost:{port}/") as answer:
                    print(await answer.text())
    except aiohttp.ClientConnectorCertificateError:
        print("refused")
    async with aiohttp.ClientSession() as session, session.get(f"https://localhost:{port}/", ssl=False) as answer:
        print("unverified", answer.status)
    await runner.cleanup()

asyncio.run(main())
assert all(type(context) is ssl.SSLContext for context in contexts)
assert type(ssl.create_default_context()) is ssl.SSLContext and ssl.create_default_context().get_ca_certs()
"""
NAMES = """
import sys
from mesos_gpu.local.forking.later import read_without
read_without()
import html
assert "html.entities" not in sys.modules
print(html.escape("<&>"), html.unescape("&lt;&euro;&notit;&#65;&nonsense;"), "html.entities" in sys.modules)
import html.entities, html.parser
assert html.entities.html5["lt;"] == "<" and type(html.entities.html5) is dict
read_without()
"""


def told(program: str, *words: str, **variables: str) -> list[str]:
    command = [sys.executable, "-c", program, *words]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("trusted", "answers"), [("ours", ["hello", "hello"]), ("others", ["refused"])])
def test_certificates_of_authorities_are_read_for_the_first_connection(
    tmp_path: Path, trusted: str, answers: list[str]
) -> None:
    authorities = {name: Authority(tmp_path / name) for name in ("ours", "others")}
    certificate, key = authorities["ours"].issue("server")
    file = str(authorities[trusted].certificate)
    assert told(CONNECT, str(certificate), str(key), SSL_CERT_FILE=file) == [*answers, "unverified 200"]


def test_names_of_characters_are_read_when_one_is_looked_up() -> None:
    assert told(NAMES) == ["&lt;&amp;&gt; <€¬it;A&nonsense; True"]
