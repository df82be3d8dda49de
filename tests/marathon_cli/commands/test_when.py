"""`mesos-gpu when`."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from marathon_cli.commands.when import sentences
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

NOW_S = 1_700_000_000.0
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
    "more",
    [
        {},
        {"starts": [{"host": f"g{at}", "cards": [{"indices": [at, 7], "nvlink": at == 0}]} for at in range(6)]},
        {"waiting": 0},
        {"firstSeconds": [60, 60, 60]},
        {"waiting": 2, "lastSeconds": [None, None, None], "firstSeconds": [300, 720, None]},
        {"firstSeconds": [300, None, None]},
        {"firstSeconds": [None, None, None]},
        {"firstSeconds": None, "tasks": {"unknown": 0}},
    ],
    ids=["usual", "places", "nothing", "certain", "two", "earliest", "never", "behind"],
)
def test_what_is_foreseen_is_said(more: dict[str, Any], golden: Golden) -> None:
    assert sentences({**FOUND, **more}, NOW_S) == golden.hide(in_12m=clock(720), in_60s=clock(60))


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
