"""`mesos-gpu image`, and pulls on the screen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marathon_cli.screen.progress import new_progress
from marathon_cli.show import pulls
from marathon_cli.show.pulls import LINE_EVERY_S, PullDisplay
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

IMAGE = {
    "reference": "nvidia/cuda:latest",
    "digest": "sha256:" + "ab" * 32,
    "bytes": 3 << 20,
    "layers": 2,
    "pulled_at_s": 0.0,
    "used_at_s": 0.0,
    "used_by": ["c1"],
}


@pytest.fixture
def agent(marathon: ScriptedServer) -> ScriptedServer:
    pid = f"slave(1)@{marathon.url.removeprefix('http://')}"
    marathon.on("GET", "/slaves", {"slaves": [{"id": "S0", "hostname": "host1", "pid": pid}]})
    marathon.on("GET", "/images", {"images": [IMAGE], "bytes": 3 << 20, "pulls": []})
    return marathon


def test_images_are_listed_for_people_and_programs(agent: ScriptedServer, run: Run) -> None:
    shown = run("image", "list").output
    for word in ("nvidia/cuda:latest", "abababababab", "3.0 MiB", "host1"):
        assert word in shown
    assert json.loads(run("image", "list", "--json").output) == [{"agent": "host1", **IMAGE}]


def lines(*documents: dict[str, Any]) -> Answer:
    return Answer(200, b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def test_a_pull_tells_how_far_it_is_and_what_came_of_it(agent: ScriptedServer, run: Run) -> None:
    progress = {"reference": "nvidia/cuda:latest", "phase": "downloading", "text": "downloading 1 of 2"}
    image = {"reference": "nvidia/cuda:latest", "digest": IMAGE["digest"], "layers": 2}
    agent.on("POST", "/images/pull", lines({"progress": progress}, {"image": image}))
    done = run("image", "pull", "nvidia/cuda")
    assert done.exit_code == 0
    assert "downloading 1 of 2" in done.output
    assert "nvidia/cuda:latest sha256:abab" in done.output
    assert agent.sent("POST")[0].body == {"reference": "nvidia/cuda", "cached": True}


@pytest.mark.parametrize("answer", [lines({"error": "no such image"}), lines(), Answer(403, b"Only this machine")])
def test_a_pull_that_fails_says_so(agent: ScriptedServer, run: Run, answer: Answer, golden: Golden) -> None:
    agent.on("POST", "/images/pull", answer)
    done = run("image", "pull", "nothing")
    assert done.exit_code == 1
    assert done.output == golden


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {"max_bytes": 0, "max_age_s": None}),
        (("--max-size", "1.5g"), {"max_bytes": 3 << 29, "max_age_s": None}),
        (("--max-size", "20GB", "--max-age", "7d"), {"max_bytes": 20 << 30, "max_age_s": 7 * 86400.0}),
    ],
)
def test_what_is_to_go_is_said_in_sizes_and_times(
    agent: ScriptedServer, run: Run, words: tuple[str, ...], asked: dict[str, Any], golden: Golden
) -> None:
    agent.on("POST", "/images/prune", {"images": ["a:1"], "bytes": 1 << 20})
    done = run("image", "prune", *words)
    assert done.exit_code == 0
    assert done.output == golden
    assert agent.sent("POST")[0].body == asked


@pytest.mark.parametrize("words", [("--max-size", "much"), ("--max-age", "3 moons")])
def test_a_size_or_time_that_is_none_is_refused(
    agent: ScriptedServer, run: Run, words: tuple[str, ...], golden: Golden
) -> None:
    done = run("image", "prune", *words)
    assert done.exit_code == 1
    assert done.output == golden


def test_an_agent_of_mesos_own_is_named(agent: ScriptedServer, run: Run, golden: Golden) -> None:
    agent.on("GET", "/images", Answer(404, b""))
    done = run("image", "list")
    assert done.exit_code == 1
    assert done.output == golden


def test_lines_come_now_and_then_and_when_the_phase_changes(capsys: pytest.CaptureFixture[str]) -> None:
    display = PullDisplay(bars=False)

    def at(now_s: float, phase: str, text: str) -> None:
        display.show([{"reference": "a", "phase": phase, "text": text}], now_s)

    at(100.0, "downloading", "one")
    at(100.1, "downloading", "two")
    at(100.2, "extracting", "three")
    at(100.3 + LINE_EVERY_S, "extracting", "four")
    display.show([], 200.0)
    assert capsys.readouterr().err.split() == ["one", "three", "four"]


def test_bars_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = new_progress()
    monkeypatch.setattr(pulls, "new_progress", lambda: progress)
    display = PullDisplay(bars=True)

    def bars(*shown: dict[str, Any]) -> list[tuple[str, float, float | None]]:
        display.show(shown, 1.0)
        return [(task.description, task.completed, task.total) for task in progress.tasks]

    assert (bars(), progress.live.is_started) == ([], False)
    pull = {"reference": "a", "phase": "downloading", "bytes_done": 1, "bytes_total": 2}
    assert (bars(pull), progress.live.is_started) == ([("downloading a", 1, 2)], True)
    assert bars({**pull, "phase": "extracting", "bytes_done": 2}) == [("extracting a", 2, 2)]
    assert bars() == []
    bars(pull)
    display.close()
    assert (progress.tasks, progress.live.is_started) == ([], False)
    display.close()
