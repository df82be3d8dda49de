"""The page of walls: the numbers of what was tried are those of the tests that try it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from benchmarks.load import COUNTS
from tests.sim.defects import DEFECTS
from tests.support.security_page import COMMAND, PAGE, ROOT, ROWS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("HYPOTHESIS_PROFILE", "ci") != "ci", reason="the page tells of the usual profile"
    ),
]

CELLS = {cells[4]: cells[1] for row in ROWS for cells in [[cell.strip() for cell in row.strip().strip("|").split("|")]]}
"""What is said to be tried, by the command that repeats it."""


@cache
def collected() -> tuple[str, ...]:
    """Return the ids of all tests of the files that the page names, as pytest finds them."""
    files = sorted({path for command in CELLS for path, _, _ in COMMAND.findall(command)})
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run([*asked, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tuple(line for line in done.stdout.splitlines() if "::" in line)


class Counted:
    """What there is of one command's tests."""

    def __init__(self, command: str) -> None:
        self.files = [path for path, _, _ in COMMAND.findall(command)]

    def cases(self, *words: str, file: int = 0) -> int:
        """Return how many cases those tests have whose names have one of the words in them; without words, all."""
        ids = [one.partition("::")[2] for one in collected() if one.startswith(f"{self.files[file]}::")]
        names = [one.partition("[")[0] for one in ids]
        return sum(not words or any(word in name for word in words) for name in names)

    def of(self, name: str, file: int = 0) -> Any:
        """Return a constant of one of its files."""
        return getattr(import_module(self.files[file].removesuffix(".py").replace("/", ".")), name)

    def text(self, file: int = 0) -> str:
        return (ROOT / self.files[file]).read_text()


def spaced(number: int) -> str:
    """Return a number as the page writes it."""
    return f"{number:,}".replace(",", " ") if number >= 10_000 else str(number)


def of_doors(_: Counted) -> str:
    """Endpoints are listed by the test that asks them, which compares the list with what services name."""
    lines = (ROOT / "docs" / "reference" / "endpoints.md").read_text().splitlines()
    return f"{sum(line.startswith(('| master', '| agent', '| marathon')) for line in lines)} pairs"


def of_wal(it: Counted) -> str:
    whole = it.cases(
        "lost_nothing", "is_whole", "frames_of_those", "other_order", "is_no_damage", "nor_where", "rolled"
    )
    return f"{whole} that are whole, {it.cases('is_told', 'are_told')} that are not"


def of_resident(it: Counted) -> str:
    owners, false = it.text().count(", 65534, -1)"), it.cases("not_said_go", "has_said_go")
    folders, users, kinds = (it.cases(word) for word in ("folder_that_others", "another_user", "another_kind"))
    return f"{folders}, {owners}, {users}, {kinds} and {false}"


def of_nothing_left(it: Counted) -> str:
    at_once = it.cases("it_has_just_begun_a_box", "given_up_as_it_has_just")
    return f"{at_once}, and {4 * it.cases('at_any_moment')} moments"


def of_sim(it: Counted) -> str:
    found = len(it.of("FOUND_BY"))
    return (
        f"{it.cases('broke_something_once')} histories that broke something once, and fresh ones in each CI; "
        f"{len(DEFECTS)} defects, {found} of them found"
    )


def of_versions(it: Counted) -> str:
    return f"{it.of('KILLS')} kill, {it.of('FULL')} full disk and {it.of('CUTS')} files in CI"


COUNTED: dict[str, Callable[[Counted], str]] = {
    "host/test_beneath.py`": lambda it: (
        f"{it.of('TRIES')} races each for {it.cases('gains_nothing') // 2} places and 2"
    ),
    "host/test_beneath.py -k no_link": lambda it: str(2 * it.cases("no_link")),
    "test_service.py -k": lambda it: f"{it.cases('full_disk', 'written_down')} faults",
    "test_permissions.py": lambda it: f"{it.cases('token')} calls",
    "makes_nobody": lambda it: f"{it.cases('makes_nobody')} spellings",
    "no_user_has": lambda it: str(it.cases("no_user_has")),
    "test_volume_walls.py`": lambda it: f"{it.cases('hosts_cgroups')}, and {it.cases('is_no_volume')} places",
    "containers_own or": lambda it: str(it.cases("containers_own", "link_of_the_image")),
    "test_hardening.py -k namespaces": lambda it: f"4 calls, {it.cases('makes_namespaces')} ways",
    "root_of_all": lambda it: f"{it.cases('root_of_all')} runtimes",
    "-k frozen": lambda it: str(it.cases("was_frozen")),
    "test_user_namespaces.py`, `tests/agent": lambda it: f"7 ways, {it.cases('nobody_on_the_host') + 2} containers",
    "test_id_claims.py": lambda it: str(it.cases() + it.cases("two_agents", file=1)),
    "cluster/test_user_namespaces.py": lambda it: (
        f"{it.cases() - it.cases('fetched') + 1} stories, the first by 2 users"
    ),
    "terminal or mounted_below": lambda it: f"{it.cases('terminal')} and {it.cases('mounted_below')} containers",
    "processes_without_end": lambda it: str(it.cases("processes_without_end")),
    "computes or memory": lambda it: str(it.cases("computes", "memory")),
    "-k secrets": lambda it: f"every path, {it.cases('secrets')} runtimes",
    "no_kernel": lambda it: f"{it.cases('no_kernel')} depths",
    "test_opening.py": lambda it: f"{it.cases('kills')}, twice each",
    "test_control.py": lambda _: f"{import_module('mesos_gpu.local.control').MAX_CALLERS + 5} callers",
    "test_log_file.py": lambda it: str(it.cases()),
    "test_every_door.py": of_doors,
    "writes_over": lambda it: f"{spaced(it.of('TRIES'))} tries",
    "test_races.py": lambda it: f"{spaced(sum(len(ways) * tries for _, ways, tries in it.of('RACES')))} tries in CI",
    "-k drivers_files": lambda it: f"{3 * len(it.of('OVER'))} images",
    "doors/oci": lambda it: f"{it.cases('nowhere_but_into_it')} images",
    "box/test_faults.py": lambda it: f"some 10 faults in {it.of('BREAKING_S'):.0f} s in CI",
    "versions/test_faults.py": of_versions,
    "test_wal.py": of_wal,
    "test_nothing_left.py": of_nothing_left,
    "test_store_damage.py": lambda it: f"{len(it.of('RECORDS')) + 1} x {len(it.of('WAYS'))}",
    "test_damaged_state.py": lambda it: f"{len(it.of('KINDS'))} kinds of files in {len(it.of('WAYS'))} ways",
    "test_crashes.py": lambda it: f"{it.of('KILLS')} kills",
    "test_resident.py": of_resident,
    "test_box_group.py": lambda it: (
        f"{it.cases('nothing_else', file=1)} actions before the lists, "
        f"{it.cases('means_another', file=1)} names that mean another"
    ),
    "test_sim.py": of_sim,
}
"""What a row begins with, by a part of its command that no other has. Where a number is of the text of a test
(a list in a shell's line, images made in a loop), it is written here and in the test alone."""


@pytest.mark.parametrize("part", COUNTED)
def test_what_was_tried_is_what_the_tests_try(part: str) -> None:
    (command,) = [one for one in CELLS if part in one]
    tried, expected = CELLS[command], COUNTED[part](Counted(command))
    assert tried == expected or tried.startswith((f"{expected} ", f"{expected},", f"{expected};")), (expected, tried)


LOAD = {
    "frameworks": ("frameworks that decline", "frameworks"),
    "declines": ("declines a second", "declines a second"),
    "deaf": ("readers that never read", "readers that never read"),
    "apps": ("apps that wait", "apps that wait"),
    "starts": ("containers at once", "starts at once"),
}
"""What `./run bench load` can be told, as the page and as the benchmark call it, in the page's order."""


def test_the_load_is_what_the_benchmark_asks_for_and_what_was_kept_of_it() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if "`sudo ./run bench load`" in line]
    figures = json.loads((ROOT / "benchmarks" / "results" / "load.json").read_bytes())["figures"]
    most = []
    for option, (words, key) in LOAD.items():
        assert f"{COUNTS[option]:,} {words}".replace(",", " ") in row
        mine = [figure["note"] for figure in figures if figure["key"].partition(" ")[2].partition(",")[0] == key]
        most.append(max(int(note.partition("memory at most ")[2].partition(" MiB")[0]) for note in mine))
    assert f"| {len(LOAD)} |" in row
    assert f"memory at most {', '.join(map(str, most[:-1]))} and {most[-1]} MiB" in row
