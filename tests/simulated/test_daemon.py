"""How long the program that plays the cards is there."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.simulated import daemon
from mesos_gpu.simulated.client import Cards
from mesos_gpu.simulated.listeners import bound


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
