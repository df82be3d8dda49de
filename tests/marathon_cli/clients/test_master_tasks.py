"""Tasks as a master lists them: a recorded one, with a task that has ended."""

from __future__ import annotations

import json

from marathon_cli.clients.task_names import tasks_of
from tests.support import places
from tests.support.marathon_cli.scripted_server import Run, ScriptedServer

MASTER = json.loads((places.RECORDED / "master.json").read_text())["get"]["running"]
TASKS, SLAVES = MASTER["/tasks"]["body"]["tasks"], MASTER["/slaves"]["body"]["slaves"]

ENDED = ["dup", "bad-nocpu", "bad-one-and-a-bit"]
"""The latest first."""


def test_tasks_are_chosen_by_name_agent_and_whether_they_have_ended() -> None:
    def ids(**which: object) -> list[str]:
        return [task["id"] for task in tasks_of(TASKS, SLAVES, **which)]  # type: ignore[arg-type]

    assert ids() == ["gpu-run", *ENDED]
    assert (ids(completed=True), ids(completed=False)) == (ENDED, ["gpu-run"])
    assert (ids(agent_id="S0"), ids(agent_id="S1")) == (["gpu-run", *ENDED], [])
    assert (ids(name="du*"), ids(name="nobody")) == (["dup"], [])


def test_a_task_has_the_keys_that_marathon_lists_it_by() -> None:
    run, dup, *_ = tasks_of(TASKS, SLAVES)
    keys = ("gpus", "host", "startedAt", "endedAt")
    assert [run[key] for key in keys] == [1, "127.0.0.1", "2026-11-21T10:22:04.947Z", None]
    assert [dup[key] for key in keys] == [0, "127.0.0.1", "2026-11-21T10:21:59.405Z", "2026-11-21T10:22:00.706Z"]


def test_ended_tasks_are_listed_where_they_are_asked_for(marathon: ScriptedServer, run: Run) -> None:
    for path in ("/tasks", "/slaves"):
        marathon.on("GET", path, MASTER[path]["body"])
    row = run("task", "list", "--completed").stdout.splitlines()[1]
    assert row.split()[:5] == ["---", "0", "---", "TASK_KILLED", "127.0.0.1"]
    assert run("task", "list", "--all", "-q").stdout.split() == ["gpu-run", *ENDED]
    assert run("task", "list", "--agent-id", "S0", "-q").stdout.split() == ["gpu-run"]
    assert run("task", "list", "--all", "--completed").exit_code == 2
