"""Isolators that are killed, whose disk fails, and that compete for one folder: no GPU is held twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import Conflict
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from tests.support.histories import examples
from tests.support.isolator_processes import DRIVER, STEPS, UNITS, WHOLE

PROGRAM = (sys.executable, "-m", "tests.support.isolator_processes")
State = dict[str, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, so that tests do not wait for the disk."""
    made = Path(tempfile.mkdtemp(prefix="mesos-gpu-processes-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield made
    shutil.rmtree(made)


def run(folder: Path, mode: str) -> list[Any]:
    done = subprocess.run([*PROGRAM, str(folder), mode], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(state: State) -> None:
    """Check that no GPU is held twice or lost, and that a shared GPU is not oversubscribed."""
    gpus = [gpu for held in state["held"].values() for gpu in held]
    assert len(set(gpus)) == len(gpus)
    assert len(gpus) + state["free"] == len(WHOLE)
    assert sum(state["units"].values()) <= UNITS


def recorded(state: State) -> tuple[Any, Any]:
    """Return the part of a state that is on record: containers without GPUs are not."""
    return {name: gpus for name, gpus in state["held"].items() if gpus}, state["units"]


@pytest.mark.slow
def test_a_kill_at_any_file_operation_leaves_records_that_the_next_process_reads(folder: Path) -> None:
    lives = run(folder, "kill")
    assert lives[-1]["status"] == 0
    assert len(lives) > 3 * len(STEPS), "each call does several file operations"
    for life in lives[:-1]:
        assert life["status"] == -9
        check(life["after"])
        states = [report for report in life["reports"] if "held" in report]
        held, units = recorded(states[-1]) if states else ({}, {})
        found_held, found_units = recorded(life["after"])
        changing = life["reports"][-1].get("begins", ["", ""])[1] if life["reports"] else ""
        for name in (held.keys() | found_held.keys()) - {changing}:
            assert found_held.get(name) == held.get(name)
        for name in (units.keys() | found_units.keys()) - {changing}:
            assert found_units.get(name) == units.get(name)
        before, now = set(held.get(changing, ())), set(found_held.get(changing, ()))
        assert before <= now or now <= before
        assert not [name for name in life["after"]["files"] if not name.endswith(".json")]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fail-once", "fail-on"])
def test_a_file_operation_that_fails_leaves_no_trace_of_the_call(folder: Path, mode: str) -> None:
    lives = run(folder, mode)
    assert len(lives) > 3 * len(STEPS)
    errors = 0
    for life in lives:
        assert life["status"] == 0, life["reports"]
        *refused, _, end = [report for report in life["reports"] if "full" not in report]
        for report in refused:
            errors += 1
            check(report)
            before = report["before"]
            if mode == "fail-once":
                assert (report["held"], report["units"]) == (before["held"], before["units"])
            else:  # a record that cannot be removed keeps its GPUs held
                assert all(set(gpus) <= set(report["held"][name]) for name, gpus in before["held"].items())
        check(end["end"])
        check(life["after"])
        assert recorded(life["after"]) == recorded(end["end"])
        assert not [name for name in life["after"]["files"] if not name.endswith(".json")]
    assert errors > len(STEPS)


CALLS = st.tuples(
    st.sampled_from(["prepare", "share", "update", "reshare", "cleanup"]),
    st.sampled_from(["a", "b"]),
    st.integers(0, 5),
)


@pytest.mark.slow
def test_processes_that_compete_for_one_folder_hold_no_gpu_twice(folder: Path) -> None:
    """The others are refused with the pid of the holder, until it closes its isolator or is killed."""
    with subprocess.Popen(
        [*PROGRAM, str(folder), "race"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        @settings(max_examples=examples(150))
        @given(st.lists(st.lists(CALLS, max_size=5), min_size=2, max_size=4))
        def race(processes: list[list[tuple[str, str, int]]]) -> None:
            named = [[(step, f"{number}{name}", n) for step, name, n in one] for number, one in enumerate(processes)]
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(json.dumps(named) + "\n")
            program.stdin.flush()
            found = json.loads(program.stdout.readline())
            check(found["after"])
            held, units = recorded(found["after"])
            conflicts: list[bool] = []
            for number, (pid, reports) in enumerate(zip(found["pids"], found["reports"], strict=True)):
                assert not [report for report in reports if "error" in report]
                refused = [report["conflict"] for report in reports if "conflict" in report]
                for words in refused:
                    assert set(map(int, re.findall(r"process (\d+)", words))) <= set(found["pids"]) - {pid}
                conflicts.append(bool(refused))
                states = [report for report in reports if "held" in report]
                for state in states:
                    check(state)
                if states:
                    mine = [name for name in states[-1]["held"] if name.startswith(str(number))]
                    last_held, last_units = recorded(states[-1])
                    assert all(held.get(name) == last_held.get(name) for name in mine)
                    assert all(units.get(name) == last_units.get(name) for name in mine)
            assert sum(conflicts) == len(processes) - 1, "all but the first to open the folder"

        race()
        program.stdin.close()


def test_the_lock_of_a_killed_process_is_free_although_a_child_of_it_lives(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys, time\n"
        "from tests.support.isolator_processes import open_isolator\n"
        "whole, isolator = open_isolator(pathlib.Path(sys.argv[1]))\n"
        "isolator.prepare('a', 2)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        whole.free\n"
        "    except Exception as error:\n"
        "        os.write(1, type(error).__name__.encode() + b'\\n')\n"
        "    isolator.close()\n"
        "    time.sleep(60)\n"
        "os.write(1, b'%d\\n' % child)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        said = {parent.stdout.readline().strip() for _ in range(2)}
        child = int(*(said - {"Conflict"}))
        try:
            assert "Conflict" in said, "a forked process cannot use the isolator"
            with pytest.raises(
                Conflict, match=rf"process {parent.pid}\b.*{tmp_path}|{tmp_path}.*process {parent.pid}\b"
            ):
                NvidiaGpuIsolator(WHOLE, DRIVER, None, Checkpoints(tmp_path / "gpus"))
            parent.kill()
            parent.wait()
            with NvidiaGpuIsolator(WHOLE, DRIVER, None, Checkpoints(tmp_path / "gpus")) as isolator:
                assert isolator.recover(["a"]) == frozenset()
                assert len(isolator.held["a"]) == 2
        finally:
            os.kill(child, 9)
