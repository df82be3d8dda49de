"""How long the program that plays the cards is there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mesos_gpu.simulated import daemon
from mesos_gpu.simulated.client import Cards


def test_it_waits_longer_for_its_first_client_than_after_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "ALONE_S", 0.0)
    monkeypatch.setattr(daemon, "LONGEST_SLEEP_S", 0.01)
    cards = daemon.Daemon({0: 1 << 30}, "nobody")
    path = tmp_path / "card.sock"
    listener = daemon.bound(path)
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
