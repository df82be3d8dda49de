"""docs/do/real-cluster.md can be followed to the letter: its call is one of the operator API, its flags are there."""

from __future__ import annotations

import json
import re

from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.messages import normalize
from tests.support import places

PAGE = (places.ROOT / "docs" / "do" / "real-cluster.md").read_text()


def test_the_call_that_drains_gives_the_tasks_the_time_it_says() -> None:
    found = re.search(r"-d '(.*?)'", PAGE, re.DOTALL)
    assert found is not None
    call = normalize("mesos.v1.master.Call", json.loads(found[1]))
    assert call["drain_agent"]["max_grace_period"]["seconds"] == 600


def test_the_flags_of_its_commands_are_there() -> None:
    known = {line.program: {flag.name for flag in line.service_flags} for line in (AGENT, MASTER)}
    commands = re.findall(r"(mesos-gpu-agent|mesos-gpu-master) ((?:\\?\s+)?--(?:[^\n`]|\\\n)*)", PAGE)
    assert {name for name, _ in commands} == set(known)
    for name, words in commands:
        assert {flag for flag in re.findall(r"--([a-z_]+)", words)} - known[name] == set(), name
