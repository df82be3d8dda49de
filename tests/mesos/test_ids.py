from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ProtocolError
from mesos_gpu.executor.main import new_uuid
from mesos_gpu.mesos.ids import id_problem, role_problem
from mesos_gpu.mesos.uuids import is_uuid, random_uuid, uuid_in


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task-1", None),
        ("a.b", None),
        ("x" * 255, None),
        ("", "ID must not be empty"),
        ("x" * 256, "ID must not be greater than 255 characters"),
        (".", "'.' is disallowed"),
        ("..", "'..' is disallowed"),
        ("a/b", "'a/b' contains invalid characters"),
        ("a\\b", "'a\\b' contains invalid characters"),
        ("a\nb", "'a\nb' contains invalid characters"),
    ],
)
def test_ids_are_single_path_components(text: str, problem: str | None) -> None:
    assert id_problem(text) == problem


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ("*", None),
        ("slave_public", None),
        ("a/b/c", None),
        ("", "Role names cannot be the empty string"),
        ("/a", "Role '/a' cannot start with a slash"),
        ("a/", "Role 'a/' cannot end with a slash"),
        ("a//b", "Role 'a//b' cannot contain two adjacent slashes"),
        ("..", "Role '..' cannot include '..' as a component"),
        ("a/*", "Role 'a/*' cannot include '*' as a component"),
        ("-bad", "Role component '-bad' is invalid because it starts with a dash"),
        ("a b", "Role component 'a b' is invalid because it contains backspace or whitespace"),
    ],
)
def test_role_names_follow_mesos_rules(role: str, problem: str | None) -> None:
    assert role_problem(role) == problem


def text(number: bytes) -> str:
    return base64.b64encode(number).decode()


@given(st.binary(min_size=16, max_size=16))
def test_random_bytes_become_a_uuid_of_version_4(random: bytes) -> None:
    made = uuid.UUID(bytes=random_uuid(random))
    assert (made.version, made.variant) == (4, uuid.RFC_4122)
    assert is_uuid(text(made.bytes))


@given(st.binary(min_size=16, max_size=16))
def test_16_bytes_are_one_when_their_version_is_1_to_5(number: bytes) -> None:
    assert is_uuid(text(number)) == (1 <= number[6] >> 4 <= 5)


@pytest.mark.parametrize("wrong", ["", "x", "dQ==", text(b"v" * 16), text(b"0123456789abcdef" + b"0")])
def test_what_is_none_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ProtocolError, match="an operation"):
        uuid_in(wrong, "an operation")


def test_the_default_executor_makes_valid_ones() -> None:
    assert all(is_uuid(new_uuid()) for _ in range(100))
