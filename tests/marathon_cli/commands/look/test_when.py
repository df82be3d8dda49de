"""`mesos-gpu when`."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from marathon_cli.commands.look.when import sentences
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

NOW_S = 1_700_000_000.0
ONE = "1 instance of /big waits."
FOUND: dict[str, Any] = {
    "id": "/big",
    "waiting": 1,
    "firstSeconds": [300, 720, 2400],
    "lastSeconds": [300, 720, 2400],
    "tasks": {"seen": 2, "asked": 0, "unknown": 1},
}


def clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(NOW_S + seconds))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {},
            [f"{ONE} It is expected to start in 12m, at {clock(720)}; in 8 cases of 10 between 5m and 40m from now."],
        ),
        (
            {"starts": [{"host": f"g{at}", "cards": [{"indices": [at, 7], "nvlink": at == 0}]} for at in range(6)]},
            [
                f"{ONE} It is expected to start in 12m, at {clock(720)}; in 8 cases of 10 between 5m and 40m from now.",
                "As things stand it is on g0 (GPUs 0+7 share NVLink), g1 (GPUs 1+7 do not all share NVLink), "
                "g2 (GPUs 2+7 do not all share NVLink), g3 (GPUs 3+7 do not all share NVLink), "
                "g4 (GPUs 4+7 do not all share NVLink) and 1 more.",
            ],
        ),
        ({"waiting": 0}, ["nothing of /big waits"]),
        (
            {"firstSeconds": [60, 60, 60]},
            [f"1 instance of /big waits. It is expected to start in 60s, at {clock(60)}."],
        ),
        (
            {"waiting": 2, "lastSeconds": [None, None, None], "firstSeconds": [300, 720, None]},
            [
                f"2 instances of /big wait. The first is expected to start in 12m, at {clock(720)}; "
                "in 8 cases of 10 between 5m and no time that is known from now.",
                "No start of the last is seen.",
            ],
        ),
        (
            {"firstSeconds": [300, None, None]},
            [f"{ONE} It is expected to start in 5m at the earliest; in half of all cases no end of the wait is seen."],
        ),
        (
            {"firstSeconds": [None, None, None]},
            [
                "1 instance of /big waits, and no end is known of what would have to end first "
                "(1 task runs that may run for ever).",
                "`mesos-gpu why /big` says what would help.",
            ],
        ),
        (
            {"firstSeconds": None, "tasks": {"unknown": 0}},
            [
                "1 instance of /big waits, and no end is known of what would have to end first "
                "(what comes before it may run for ever).",
                "`mesos-gpu why /big` says what would help.",
            ],
        ),
    ],
)
def test_what_is_foreseen_is_said(more: dict[str, Any], said: list[str]) -> None:
    assert sentences({**FOUND, **more}, NOW_S) == said


def test_when_asks_marathon_with_what_the_master_says(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v2/info", {"version": "1.11.0", "marathon_config": {"mesos_leader_ui_url": marathon.url}})
    marathon.on("GET", "/slaves", {"slaves": [{"id": "S0"}]})
    marathon.on("GET", "/roles", {"roles": []})
    marathon.on("POST", "/v1/when", FOUND)
    assert re.sub(r"\b\d\d:\d\d\b", "<time>", run("when", "big").stdout) == golden
    assert marathon.sent("POST")[-1].body == {"id": "big", "agents": [{"id": "S0"}], "roles": []}
    assert json.loads(run("when", "big", "-o", "json").stdout)["waiting"] == 1
    marathon.on("POST", "/v1/when", Answer(404, {"message": "there is no app, pod or job 'big'"}))
    result = run("when", "big")
    assert (result.exit_code, "there is no app, pod or job 'big'" in result.stderr) == (1, True)
