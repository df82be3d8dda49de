"""The process that services are forked from, and what a service that was forked has of it: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking import forks as forks_module
from mesos_gpu.local.forking.forks import Forked, Forks
from mesos_gpu.local.forking.handed import adopt, children
from mesos_gpu.local.forking.ports import KEPT, candidates, is_free, lent, port_for
from mesos_gpu.local.plan import LOOPBACK, program
from tests.support.places import ROOT

DOUBLE = "tests.local.forking.service_double"


@pytest.fixture
async def forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forks]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Forks(tmp_path, modules=[DOUBLE])
    yield made
    await made.close()


async def start(forks: Forks, folder: Path, *flags: str) -> Forked:
    """Start the double and wait until it is ready, or has ended."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    with (folder / "double.log").open("ab") as log:
        forked = await forks.start(DOUBLE, ["--port=0", f"--ready_file={ready}", *flags], "double", log.fileno())
    while forked.returncode is None and not ready.exists():  # noqa: ASYNC110 - a file tells nobody that it is there
        await asyncio.sleep(0.005)
    return forked


def preloaded(forks: Forks) -> int:
    assert forks._preloading is not None
    return forks._preloading.pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


async def test_a_service_is_shown_as_the_program_that_it_is(forks: Forks, tmp_path: Path) -> None:
    forked = await start(forks, tmp_path, "--word=ä b")
    ready = tmp_path / "ready.json"
    words = Path(f"/proc/{forked.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    said = [*program(DOUBLE), "--port=0", f"--ready_file={ready}", "--word=ä b"]
    assert words == [os.fsencode(word) for word in said]
    assert Path(f"/proc/{forked.pid}/comm").read_text() == "mesos-double\n"


async def test_a_service_has_nothing_open_but_its_log(forks: Forks, tmp_path: Path) -> None:
    others = await start(forks, tmp_path)
    forked = await start(forks, tmp_path)
    log = str(tmp_path / "double.log")
    files = {path.name: str(path.readlink()) for path in Path(f"/proc/{forked.pid}/fd").iterdir()}
    assert files == {"0": os.devnull, "1": log, "2": log}
    assert others.returncode is None


async def test_a_service_leads_a_session_and_takes_signals_as_any_program(forks: Forks, tmp_path: Path) -> None:
    forked = await start(forks, tmp_path, "--stubborn=1")
    try:
        assert os.getsid(forked.pid) == os.getpgid(forked.pid) == forked.pid
        command = [sys.executable, "-c", "print(open('/proc/self/status').read())"]
        bare = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        masks = [
            dict(line.split(":\t") for line in text.splitlines() if line.startswith("Sig"))
            for text in (Path(f"/proc/{forked.pid}/status").read_text(), bare.stdout)
        ]
        for name in ("SigBlk", "SigPnd", "SigCgt"):
            assert masks[0][name] == masks[1][name], name
        stubborn = 1 << (signal.SIGTERM - 1)
        assert int(masks[0]["SigIgn"], 16) == int(masks[1]["SigIgn"], 16) | stubborn
    finally:
        forked.send_signal(signal.SIGKILL)
        await forked.wait()


@pytest.mark.parametrize(
    ("flag", "status", "words"),
    [("--status=3", 3, ""), ("--fail=no", 1, "double: no\n"), ("--raise=a bug", 1, "RuntimeError: a bug\n")],
)
async def test_how_a_service_ends_is_told(forks: Forks, tmp_path: Path, flag: str, status: int, words: str) -> None:
    forked = await start(forks, tmp_path, flag)
    assert await forked.wait() == status
    assert (tmp_path / "double.log").read_text().endswith(words)
    forked.send_signal(signal.SIGKILL)  # nobody is there to get it


async def test_a_module_that_is_not_there_is_said_in_the_log_of_the_service(forks: Forks, tmp_path: Path) -> None:
    with (tmp_path / "double.log").open("ab") as log:
        forked = await forks.start("tests.local.no_such_double", [], "double", log.fileno())
    assert await forked.wait() == 1
    assert "No module named 'tests.local.no_such_double'" in (tmp_path / "double.log").read_text()


async def test_services_are_our_children_and_outlive_what_they_were_forked_from(forks: Forks, tmp_path: Path) -> None:
    first = await start(forks, tmp_path)
    assert parent(first.pid) == os.getpid()
    before = preloaded(forks)
    os.kill(before, signal.SIGKILL)
    while forks._preloading is not None:  # noqa: ASYNC110 - it is told in the log alone
        await asyncio.sleep(0.005)
    second = await start(forks, tmp_path)
    assert preloaded(forks) != before
    assert (first.returncode, second.returncode) == (None, None)
    first.send_signal(signal.SIGKILL)
    assert await first.wait() == -signal.SIGKILL


async def test_what_they_are_forked_from_is_let_go_once_nothing_is_started_any_more(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks_module, "KEPT_S", 0.01)
    others = children()
    first = await start(forks, tmp_path)
    while children() - others != {first.pid}:  # noqa: ASYNC110 - as few tell of it as saw it
        await asyncio.sleep(0.005)
    second = await start(forks, tmp_path)
    assert second.returncode is first.returncode is None


async def test_what_ends_above_somebody_in_the_moment_of_a_start_leaves_no_zombie(forks: Forks, tmp_path: Path) -> None:
    await start(forks, tmp_path)
    with (tmp_path / "double.log").open("ab") as log:
        os.kill(preloaded(forks), signal.SIGSTOP)
        starting = asyncio.ensure_future(forks.start(DOUBLE, ["--status=0"], "double", log.fileno()))
        await asyncio.sleep(0)
    # As an agent that is killed, and a container's conmon.
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 60 >/dev/null & echo $!", stdout=asyncio.subprocess.PIPE
    )
    sleeping = int((await shell.communicate())[0])
    assert parent(sleeping) == os.getpid()
    os.kill(preloaded(forks), signal.SIGCONT)
    await (await starting).wait()
    os.kill(sleeping, signal.SIGKILL)
    while sleeping in children():  # noqa: ASYNC110 - who was adopted tells nobody of its end
        await asyncio.sleep(0.005)


async def test_who_was_waited_for_by_somebody_else_has_ended_all_the_same(forks: Forks, tmp_path: Path) -> None:
    forked = await start(forks, tmp_path)
    os.kill(forked.pid, signal.SIGKILL)
    os.waitpid(forked.pid, 0)  # noqa: ASYNC222 - it ends at once
    assert await forked.wait() == 255


async def test_who_waits_for_a_start_is_told_that_there_is_nobody_to_fork(forks: Forks, tmp_path: Path) -> None:
    await start(forks, tmp_path)
    os.kill(preloaded(forks), signal.SIGSTOP)  # so that the request is not answered
    with (tmp_path / "double.log").open("ab") as log:
        starting = asyncio.ensure_future(forks.start(DOUBLE, ["--port=0"], "double", log.fileno()))
        await asyncio.sleep(0)
        os.kill(preloaded(forks), signal.SIGKILL)
        with pytest.raises(Unavailable):
            await starting


async def test_a_start_that_was_given_up_leaves_nothing_running(forks: Forks, tmp_path: Path) -> None:
    first = await start(forks, tmp_path)
    with (tmp_path / "double.log").open("ab") as log:
        flags = ["--port=0", f"--ready_file={tmp_path / 'given_up.json'}"]
        starting = asyncio.ensure_future(forks.start(DOUBLE, flags, "double", log.fileno()))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    second = await start(forks, tmp_path)
    while len(forks._running) > 2:  # noqa: ASYNC110 - who was given up tells nobody of its end
        await asyncio.sleep(0.005)
    assert set(forks._running.values()) == {first, second}


async def test_a_start_that_is_given_up_as_it_is_answered_leaves_nothing_running(forks: Forks, tmp_path: Path) -> None:
    with (tmp_path / "double.log").open("ab") as log:
        starting = asyncio.ensure_future(forks.start(DOUBLE, ["--port=0", "--never=1"], "double", log.fileno()))
        while not forks._running:  # noqa: ASYNC110 - the answer is seen before the one who waits for it is woken
            await asyncio.sleep(0)
        (forked,) = forks._running.values()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    assert await forked.wait() == -signal.SIGKILL


async def test_that_no_process_can_be_made_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    forks, others = Forks(tmp_path, modules=["tests.local.forking.no_forks"]), children()
    with (tmp_path / "double.log").open("ab") as log, pytest.raises(BlockingIOError):
        await forks.start(DOUBLE, [], "double", log.fileno())
    await forks.close()
    assert not children() - others


@pytest.mark.parametrize("ends", ["begin", "end"])
def test_who_is_handed_over_runs_nothing_before_it_is_told_to(tmp_path: Path, ends: str) -> None:
    """Nor when the process that would tell it has ended."""
    adopt(True)
    forking = subprocess.Popen(
        [sys.executable, "-c", HANDING, str(os.getpid()), str(tmp_path), ends],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(forking.communicate()[0])
    adopt(False)
    found = os.waitid(os.P_PID, pid, os.WEXITED)
    assert found is not None
    assert found.si_status == {"begin": 3, "end": 1}[ends]


HANDING = """
import signal, sys
from mesos_gpu.local.forking.handed import hand_over
parent, folder, ends = sys.argv[1:]
with open(folder + "/log", "wb") as log:
    how = {"name": "double", "log": log.fileno(), "end": signal.SIGTERM, "parent": int(parent)}
    handed = hand_over("tests.local.forking.service_double", ["--status=3"], **how)
print(handed.pid, flush=True)
if ends == "begin":
    handed.begin()
"""


OWNER = """
import sys
from pathlib import Path
from mesos_gpu.local.forking.forks import Preloading
sys.stdout.write("written before")
made = Preloading.forked(Path("/nowhere"), ["json"])
sys.stdout.flush()
sys.stdin.read()
"""


def test_when_its_owner_is_killed_it_ends_and_says_nothing() -> None:
    """The pipe of its output closes when the last process that has it ends."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.read(14) == b"written before"
    owner.kill()
    assert owner.communicate(timeout=30) == (b"", None)


def listening(port: int = 0) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def test_the_kernel_lends_nobody_the_port_of_a_service() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getsockname()[1] in lent()
    assert port_for(0) in KEPT
    assert port_for(0) not in lent()


def test_a_service_has_the_port_that_it_had_unless_somebody_else_has_it() -> None:
    last = port_for(0)
    assert port_for(last) == last
    assert port_for(last, {last}) != last, "another service of the box is about to listen there"
    with listening(last):
        assert not is_free(last)
        other = port_for(last)
        assert other != last
        assert is_free(other)
    assert port_for(last) == last


def test_a_port_is_free_whose_last_connection_has_just_ended() -> None:
    with listening(port_for(0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()  # who closes first waits for a minute: TIME_WAIT
        client.close()
    assert is_free(port)


def test_ports_that_are_lent_are_none_of_ours() -> None:
    assert candidates(range(20, 30), range(25, 60), {22}) == [20, 21, 23, 24]
    assert candidates(range(20, 30), range(1, 65536)) == []
