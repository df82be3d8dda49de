"""The cards of a machine: memory with its limits, and checkpoints that book each byte on one card at every moment."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.gpus.simulated_cards import play
from mesos_gpu.simulated import daemon
from mesos_gpu.simulated.client import Cards, CardsSilent
from mesos_gpu.simulated.listeners import bound
from mesos_gpu.simulated.machine import MOST_MAPPED, NO_LIMIT, Code, Machine, Peer, Refused, State
from mesos_gpu.simulated.running import SOCKET, RunningCards

GIB = 1 << 30
A, B, OUTSIDE = Peer(1, "a", frozenset({"/root/a"})), Peer(2, "b", frozenset({"/root/b"})), Peer(9)


def machine() -> Machine:
    return Machine({0: 16 * GIB, 1: 16 * GIB, 2: 8 * GIB})


def refused(code: Code) -> pytest.RaisesExc[Refused]:
    return pytest.raises(Refused, match=f"^{code.name}$")


def test_memory_is_refused_when_the_card_is_full_and_free_when_its_context_ends() -> None:
    m = machine()
    a, b = m.open(A, 0), m.open(B, 0)
    m.allocate(1, a, 10 * GIB)
    assert m.room(B, 0) == (6 * GIB, 16 * GIB)
    with refused(Code.OUT_OF_MEMORY):
        m.allocate(2, b, 7 * GIB)
    piece = m.allocate(2, b, 6 * GIB)
    assert (m.used_by(A, 0), m.used_by(B, 0), m.used(0)) == (10 * GIB, 6 * GIB, 16 * GIB)
    m.free(2, piece)
    with refused(Code.INVALID_VALUE):
        m.free(2, piece)
    m.close(1, a)
    assert m.used(0) == 0
    with refused(Code.INVALID_CONTEXT):
        m.allocate(1, a, 1)
    with refused(Code.INVALID_VALUE):
        m.allocate(2, b, 0)
    with refused(Code.INVALID_DEVICE):
        m.open(A, 7)


def test_a_process_has_no_more_pieces_than_it_may() -> None:
    m = machine()
    a = m.open(A, 0)
    m.processes[1].memory = dict.fromkeys(range(-MOST_MAPPED, 0), (a, 1))
    with refused(Code.INVALID_VALUE):
        m.allocate(1, a, 1)


def test_a_limit_of_a_cgroup_is_what_its_processes_see_and_have() -> None:
    m = machine()
    a, b = m.open(A, 0), m.open(B, 0)
    m.limit(0, "/sys/fs/cgroup/root/a", GIB, 6 * GIB)
    assert m.limits(0, "/root/a/") == (GIB, 6 * GIB, 0)
    assert m.room(A, 0) == (6 * GIB, 6 * GIB)
    m.allocate(1, a, 4 * GIB)
    assert (m.room(A, 0), m.limits(0, "/root/a")[2]) == ((2 * GIB, 6 * GIB), 4 * GIB)
    with refused(Code.OUT_OF_MEMORY):
        m.allocate(1, a, 3 * GIB)
    m.allocate(2, b, 12 * GIB)
    assert m.room(A, 0) == (0, 6 * GIB)
    # The limit of a parent counts for all below; one that is below what is used takes nothing away.
    m.limit(0, "/root", 0, GIB)
    assert m.room(A, 0) == (0, GIB)
    m.limit(0, "/root", 0, NO_LIMIT)
    m.limit(0, "/root/a", 0, NO_LIMIT)
    assert m.limits(0, "/root/a") == (0, NO_LIMIT, 4 * GIB)
    with refused(Code.INVALID_VALUE):
        m.limit(0, "/root/a", 2, 1)


def test_kernels_and_events_are_of_their_context_and_stream() -> None:
    m = machine()
    a = m.open(A, 0)
    first, second = m.submit(1, a, 0, 100, 0), m.submit(1, a, 5, 100, 0)
    event = m.submit(1, a, 5, 0, 0, event=True)
    assert m.queued(1) == m.queued(1, a) == {first, second, event}
    assert m.queued(1, a, 5) == {second, event}
    assert m.queued(77) == frozenset()
    assert m.next_ns() == 100
    assert m.event(1, event) is None
    assert m.advance(150) == [(first, 1)]
    assert m.advance(200) == [(second, 1), (event, 1)]
    assert m.event(1, event) == 200
    for pid in (1, 2):
        m.forget_event(pid, event)
    with refused(Code.INVALID_HANDLE):
        m.event(1, event)
    assert m.next_ns() is None


def test_a_process_that_ends_leaves_nothing() -> None:
    m = machine()
    a = m.open(A, 0)
    m.allocate(1, a, GIB)
    m.submit(1, a, 0, 100, 0)
    event = m.submit(1, a, 0, 0, 0, event=True)
    assert len(m.end(1)) == 2
    assert (m.used(0), m.next_ns(), m.processes, list(m.on_card(0))) == (0, None, {}, [])
    with refused(Code.INVALID_HANDLE):
        m.event(1, event)
    assert m.end(1) == []


def test_a_checkpoint_frees_the_card_and_is_restored_onto_another_of_its_size() -> None:
    m = machine()
    a = m.open(A, 0)
    m.allocate(1, a, 10 * GIB)
    assert m.begin_lock(1) == frozenset()
    with refused(Code.ILLEGAL_STATE):
        m.begin_lock(1)
    m.end_lock(1, locked=True)
    with refused(Code.ILLEGAL_STATE):
        m.restore(1, {})
    m.checkpoint(1)
    assert (m.used(0), m.used_by(A, 0), list(m.on_card(0)), m.process(1).kept()) == (0, 0, [], {0: 10 * GIB})
    b = m.open(B, 0)
    m.allocate(2, b, 8 * GIB)
    with refused(Code.OUT_OF_MEMORY):
        m.restore(1, {})
    with refused(Code.INVALID_DEVICE):
        m.restore(1, {0: 2})
    m.restore(1, {0: 1})
    assert (m.process(1).state, m.used(1), m.on(1, a)) == (State.LOCKED, 10 * GIB, 1)
    m.unlock(1)
    with refused(Code.ILLEGAL_STATE):
        m.unlock(1)
    with refused(Code.INVALID_VALUE):
        m.process(77)


def test_a_lock_that_takes_too_long_is_none() -> None:
    m = machine()
    a = m.open(A, 0)
    ticket = m.submit(1, a, 0, 100, 0)
    assert m.begin_lock(1) == {ticket}
    m.end_lock(1, locked=False)
    assert m.process(1).state is State.RUNNING


STEPS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3), st.integers(0, 2)), max_size=80)


@given(STEPS)
def test_whatever_happens_no_card_has_more_than_it_has_and_no_byte_is_on_two(
    steps: list[tuple[int, int, int]],
) -> None:
    m = Machine({0: 10, 1: 10, 2: 10})
    contexts: dict[int, list[int]] = {1: [], 2: [], 3: []}
    pieces: dict[int, dict[int, int]] = {1: {}, 2: {}, 3: {}}
    for kind, pid, card in steps:
        try:
            if kind == 0:
                contexts[pid].append(m.open(Peer(pid, f"c{pid}"), card))
            elif kind in (1, 2) and contexts[pid]:
                size = kind * 2 + card
                pieces[pid][m.allocate(pid, contexts[pid][-1], size)] = size
            elif kind == 3 and pieces[pid]:
                number = next(iter(pieces[pid]))
                m.free(pid, number)
                del pieces[pid][number]
            elif kind == 4:
                m.begin_lock(pid)
                m.end_lock(pid, locked=card > 0)
            elif kind == 5:
                m.checkpoint(pid)
            elif kind == 6:
                m.restore(pid, {one: (one + card) % 3 for one in range(3)})
            elif kind == 7:
                m.unlock(pid)
            elif kind == 8 and card == 0:
                m.end(pid)
                contexts[pid], pieces[pid] = [], {}
        except Refused:
            pass
        for one in m.sizes:
            assert 0 <= m.used(one) <= 10
        for number, process in m.processes.items():
            assert sum(process.kept().values()) == sum(pieces[number].values())
            on_cards = sum(process.used(one) for one in m.sizes)
            assert on_cards == (0 if process.state is State.CHECKPOINTED else sum(pieces[number].values()))


def test_it_waits_longer_for_its_first_client_than_after_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "ALONE_S", 0.0)
    monkeypatch.setattr(daemon, "LONGEST_SLEEP_S", 0.01)
    cards = daemon.Daemon({0: 1 << 30}, "nobody")
    path = tmp_path / "card.sock"
    listener = bound(path)
    cards.listen(listener, None)
    serving = threading.Thread(target=cards.serve)
    serving.start()
    try:
        serving.join(0.1)
        assert serving.is_alive(), "an agent that is long about its start finds the cards"
    finally:
        Cards(path).close()
        serving.join(10)
        listener.close()
    assert not serving.is_alive()


def within(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20.0  # less than it waits for an agent that is long about its start
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_it_does_not_wait_for_an_agent_that_was_given_up_as_it_began(tmp_path: Path) -> None:
    begin = (
        "import subprocess, sys; player = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(player.pid, flush=True); sys.stdin.read()"
    )
    words = [
        sys.executable,
        "-S",
        str(daemon.__file__).replace("daemon.py", "__main__.py"),
        "nobody",
        str(tmp_path / "control.sock"),
        f"0={1 << 30}",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", begin, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stdout is not None
        played = Path("/proc", agent.stdout.readline().strip())
        within("it listens", (tmp_path / "control.sock").exists)
        agent.kill()
    within("it has ended", lambda: not played.exists())


SIZES = {0: 1 << 30}


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[RunningCards]:
    made = RunningCards(SIZES, tmp_path / "cards", "nobody", {}, on_demand=True)
    made.begin()
    yield made
    made.close(keep=False)


def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def figures(path: Path) -> dict[str, Any]:
    with Cards(path, answer_s=60.0) as asked:
        return asked.figures()


def test_it_is_started_when_somebody_asks(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    cards.start(folder)
    assert cards.asked is not None
    with pytest.raises(CardsSilent):
        Cards(cards.control)
    assert select.select([cards.asked], [], [], 0)[0] == []
    with ThreadPoolExecutor(1) as others:
        answer = others.submit(figures, folder / SOCKET)
        assert select.select([cards.asked], [], [], 60)[0]
        cards.wake()
        assert answer.result(60)["cards"]["0"]["total"] == SIZES[0]
    assert cards.asked is None
    assert figures(folder / SOCKET) == figures(cards.control)


def test_it_is_not_waited_for_where_nobody_has_asked(tmp_path: Path, cards: RunningCards) -> None:
    cards.start(None)
    assert cards.asked is None
    cards.wake()
    with pytest.raises(CardsSilent):
        Cards(cards.control)


def test_one_of_an_agent_before_is_taken_up(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    before = RunningCards(SIZES, tmp_path / "cards", "nobody", {})
    before.begin()
    before.start(folder)
    cards.begin()
    cards.start(folder)
    assert cards.asked is None
    before.close(keep=True)
    assert figures(folder / SOCKET)["cards"]["0"]["total"] == SIZES[0]


async def test_an_agent_starts_it_for_a_program_in_a_container(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    isolator: Any = SimpleNamespace(shares={})
    whole: Any = SimpleNamespace(held={}, lent={}, volume=SimpleNamespace(host_path=folder))
    async with AsyncExitStack() as closing:
        await play(cards, isolator, whole, closing)
        assert cards.asked is not None
        told = await asyncio.to_thread(figures, folder / SOCKET)
        assert told["cards"]["0"]["total"] == SIZES[0]
    with pytest.raises(CardsSilent):
        Cards(cards.control)


async def test_an_agent_that_nobody_has_asked_ends_without_it(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    whole = cast("Any", SimpleNamespace(held={}, lent={}, volume=SimpleNamespace(host_path=folder)))
    async with AsyncExitStack() as closing:
        await play(cards, cast("Any", SimpleNamespace(shares={})), whole, closing)
    assert cards.asked is None
    with pytest.raises(CardsSilent):
        Cards(folder / SOCKET)
