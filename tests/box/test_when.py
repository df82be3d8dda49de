"""When something that waits will start, on a live box: a repeated one-off run is known by what it ran before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.box.live import LiveBox

pytestmark = pytest.mark.root
TAKES_S = 4.0
TRAINS = ("run", "--gpus", "4", "--mem", "32", "--", "sleep", str(TAKES_S))


def test_a_start_is_foreseen_from_how_long_the_same_run_took_before(box: LiveBox) -> None:
    box.ok(*TRAINS)
    assert "/run-sleep" not in box.ok("app", "list"), "its app is gone, and what it taught is not"

    again = subprocess.Popen(
        [sys.executable, "-m", "marathon_cli", *TRAINS], env=box.env, stdout=subprocess.DEVNULL, text=True
    )
    try:
        box.until("it runs again", lambda: box.gpus_free() == 0)
        waits = {"id": "next", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}
        assert box.cli("app", "add", "-", text=json.dumps(waits)).returncode == 0
        said = box.ok("when", "next", "-o", "json")
        found = json.loads(said)
        if found["waiting"]:  # on a machine that is very busy it may have started meanwhile
            assert found["tasks"] == {"seen": 1, "asked": 0, "unknown": 0}
            assert all(0 <= at <= TAKES_S + 1 for at in found["firstSeconds"])
        box.until("it starts when that has ended", lambda: states(box) == ["TASK_RUNNING"])
        assert again.wait(60) == 0
        assert json.loads(box.ok("when", "next", "-o", "json"))["waiting"] == 0
    finally:
        if again.poll() is None:
            again.terminate()
            again.wait(30)


def states(box: LiveBox) -> list[str]:
    return [task["state"] for task in box.tasks("next")]
