"""Files of variables: Compose's and docker's, which mean different things by the same text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.convert import variables
from marathon_cli.convert.manifests import Conversion, convert, convert_words
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

TEXT = """\
# a comment

PLAIN = two words   # said behind a space
export HASH=a#b
SINGLE='$PLAIN # no comment'
DOUBLE="line\\none \\"quoted\\" $PLAIN"
SEVERAL="first
second"
EMPTY=
FROM_OUTSIDE
YAML: like
"""


def test_compose_reads_quotes_comments_and_exports() -> None:
    assert [(v.name, v.value, v.line) for v in variables.compose(TEXT)] == [
        ("PLAIN", "two words", 3),
        ("HASH", "a#b", 4),
        ("SINGLE", "$PLAIN # no comment", 5),
        ("DOUBLE", 'line\none "quoted" $PLAIN', 6),
        ("SEVERAL", "first\nsecond", 7),
        ("EMPTY", "", 9),
        ("FROM_OUTSIDE", None, 10),
        ("YAML", "like", 11),
    ]


def test_to_docker_quotes_and_dollars_are_characters_like_others() -> None:
    text = "# comment\nA='1' # not one\n\n  B=$A\nC\n"
    assert [(v.name, v.value) for v in variables.docker(text)] == [("A", "'1' # not one"), ("B", "$A"), ("C", None)]


@given(st.text(alphabet="AB=\"'# \n\\$:x"))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (variables.compose, variables.docker):
        with suppress(ValueError):
            assert all(variable.name for variable in read(text))


def from_compose(service: str, files: Mapping[str, str] | None, environ: Mapping[str, str] | None = None) -> Conversion:
    def read_file(path: str) -> str:
        if files is None or path not in files:
            raise BadInput(f"{path}: no such file")
        return files[path]

    text = f"services:\n  a:\n    image: i:${{TAG:-none}}\n    mem_limit: 1g\n    restart: always\n{service}"
    return convert(text, "f", environ=environ or {}, read_file=None if files is None else read_file)


def test_env_files_are_carried_over_the_later_one_and_environment_winning() -> None:
    files = {".env": "TAG=2\nWHO=me", "one.env": 'A=1\nB="${WHO} $A"\nOUT', "two.env": "A=2", "raw.env": "R='$WHO'"}
    service = (
        "    env_file:\n    - one.env\n    - {path: two.env}\n    - {path: none.env, required: false}\n"
        "    - {path: raw.env, format: raw}\n    environment: {C: '3', OUT: }\n"
    )
    done = from_compose(service, files, {"OUT": "side", "WHO": "you"})
    (made,) = done.documents
    assert made.document["container"]["docker"]["image"] == "i:2"
    assert made.document["env"] == {"A": "2", "B": "you 1", "OUT": "side", "R": "'$WHO'", "C": "3"}
    assert done.notes.lines() == []


@pytest.mark.parametrize(
    "files",
    [
        None,
        {},
    ],
)
def test_an_env_file_that_cannot_be_read_is_told_of(files: dict[str, str] | None, golden: Golden) -> None:
    (line,) = from_compose("    env_file: x.env\n", files).notes.lines()
    assert line == golden


def test_a_line_that_is_no_variable_is_refused_and_a_variable_that_is_not_set_is_told_of(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        from_compose("    env_file: x.env\n", {"x.env": 'A=1\n"B" c\n'})
    assert str(refused.value) == golden
    (line,) = from_compose("    env_file: x.env\n", {"x.env": "A=$NOWHERE"}).notes.lines()
    assert line == golden


def test_docker_reads_env_files_too_and_env_wins() -> None:
    words = ["docker", "run", "-m", "1g", "--env-file", "f.env", "-e", "B=mine", "image"]
    done = convert_words(words, environ={"C": "out"}, read_file=lambda path: {"f.env": "A='1'\nB=2\nC\nD\n"}[path])
    assert done.documents[0].document["run"]["env"] == {"A": "'1'", "B": "mine", "C": "out"}
    assert done.notes.lines() == []
