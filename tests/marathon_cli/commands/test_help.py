"""`mesos-gpu help`: the same as `--help`, for commands, groups and the words of other tools."""

from __future__ import annotations

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Run


@pytest.mark.parametrize("words", [(), ("task",), ("task", "log"), ("logs",), ("get", "deployments"), ("up", "more")])
def test_help_says_what_the_option_says(run: Run, words: tuple[str, ...]) -> None:
    said = run(*[word for word in words if word != "more"], "--help").stdout
    assert run("help", *words).stdout == said


def test_help_of_what_is_not_there_is_bad_usage(run: Run, golden: Golden) -> None:
    refused = run("help", "task", "lgo")
    assert (refused.exit_code, refused.stderr) == (2, golden)
