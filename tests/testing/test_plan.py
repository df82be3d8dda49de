"""What the programs of a box are told."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.configuration import check_flags as check_agent
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.agent.model.resources import attributes_summary, parse_attributes
from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.configuration import check_flags as check_master
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import CommandLine, F, parse_flags
from mesos_gpu.testing import plan
from mesos_gpu.testing.plan import BoxWishes, Program

FOLDER = Path("/tmp/box")


def flags(program: Program, line: CommandLine[F]) -> F:
    """What the program itself makes of its words."""
    return parse_flags(line, program.argv(), {}, read_file=str)[0]


def test_every_program_takes_what_it_is_told() -> None:
    wishes = BoxWishes(gpus=[0, 2], docker_registry="/images", agent_flags=[{}, {"switch_user": False}])
    master = flags(plan.master(wishes, FOLDER), MASTER)
    check_master(master)
    assert (master.port, master.allocation_interval) == (0, 0.05)
    first, second = [flags(program, AGENT) for program in plan.agents(wishes, FOLDER, "127.0.0.1:5050")]
    for agent in (first, second):
        check_agent(agent)
    assert [(agent.gpu_driver, agent.switch_user) for agent in (first, second)] == [
        ("none", True),
        ("simulated", False),
    ]
    assert first.runtime_dir != second.runtime_dir
    assert first.cgroups_root != second.cgroups_root
    assert flags(plan.marathon(FOLDER, "127.0.0.1:5050"), MARATHON).http_port == 0


def test_what_a_test_says_of_a_flag_comes_before_what_the_box_would() -> None:
    wishes = BoxWishes(
        agent_flags={"registration_backoff_factor": "2secs"}, master_flags={"allocation_interval": "1secs"}
    )
    (agent,) = plan.agents(wishes, FOLDER, "127.0.0.1:5050")
    assert flags(agent, AGENT).registration_backoff_factor == 2.0
    assert flags(plan.master(wishes, FOLDER), MASTER).allocation_interval == 1.0


@pytest.mark.parametrize(
    ("wishes", "count"),
    [
        ({}, 1),
        ({"agents": 0}, 0),
        ({"gpus": [1, 0, 2]}, 3),
        ({"resources": "cpus:1"}, 1),
        ({"resources": ["cpus:1"] * 2}, 2),
    ],
)
def test_there_are_as_many_agents_as_were_named(wishes: Any, count: int) -> None:
    assert BoxWishes(**wishes).count() == count
    assert len(plan.agents(BoxWishes(**wishes), FOLDER, "m:1")) == len(plan.faults(BoxWishes(**wishes))) == count


WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6)


@given(st.dictionaries(WORDS, WORDS | st.integers(0, 10**6)))
def test_an_agent_reads_the_attributes_that_were_given(attributes: dict[str, Any]) -> None:
    shown = attributes_summary(parse_attributes(plan.attributes_text(attributes)))
    for name, value in attributes.items():
        assert str(shown[name]) == str(value) or float(shown[name]) == float(value)


@pytest.mark.parametrize("attributes", [{"": "a"}, {"a": ""}, {"a:b": "c"}, {"a": "b;c"}, {"a": " b"}, {"a": "b\n"}])
def test_attributes_that_a_flag_cannot_say_are_refused(attributes: Any) -> None:
    with pytest.raises(BadInput, match="attributes: "):
        plan.attributes_text(attributes)


def test_the_process_of_boxes_runs_the_code_that_asked_for_it() -> None:
    command = plan.fork_server_command(3, 99)
    assert command[3:] == [str(Path(plan.__file__).parents[2]), "3", "99", plan.ROOM]
    assert "mesos_gpu.testing.fork_server" in shlex.join(command)
