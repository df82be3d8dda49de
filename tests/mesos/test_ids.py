from __future__ import annotations

import pytest

from mesos_gpu.mesos.ids import id_problem, role_problem


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
