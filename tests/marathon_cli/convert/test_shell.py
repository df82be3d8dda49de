from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.convert.shell import commands


@given(st.lists(st.lists(st.text(min_size=1), min_size=1), min_size=1))
def test_quoted_words_come_back_one_command_a_line(script: list[list[str]]) -> None:
    text = "\n".join(shlex.join(words) for words in script)
    assert [[word.text for word in words] for words in commands(text)] == script


def test_words_know_their_lines_over_quotes_comments_and_continued_lines() -> None:
    text = "# first\ndocker run \\\n  -e 'A=1\n2' \\\n  image # last\n\nnext"
    assert [[(word.text, word.line) for word in words] for words in commands(text)] == [
        [("docker", 2), ("run", 2), ("-e", 3), ("A=1\n2", 3), ("image", 5)],
        [("next", 7)],
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("$PWD/x", "$PWD"),
        ('"a ${HOME}"', "${HOME}"),
        ("$(pwd -P)", "$(pwd -P)"),
        ('"it\'s $HOME"', "$HOME"),
        ("'$PWD'", ""),
        (r"\$PWD", ""),
        (r'"\$PWD"', ""),
    ],
)
def test_what_a_shell_would_replace_is_told(text: str, left: str) -> None:
    ((word,),) = commands(text)
    assert word.left == left


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a', "echo $(a"])
def test_a_quote_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is missing"):
        commands(text)


def test_what_ends_a_command_begins_another() -> None:
    assert [[word.text for word in words] for words in commands("a;b && c | d > e&")] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
        ["e"],
    ]
