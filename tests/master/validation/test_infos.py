"""What is wrong with commands, containers and checks: what a master of Mesos was not asked in tests/genuine."""

from __future__ import annotations

import pytest

from mesos_gpu.master.validation.infos import (
    Info,
    check_problem,
    command_problem,
    container_problem,
    health_check_problem,
    secret_problem,
    volume_problem,
)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({"type": "VALUE", "value": {"data": ""}}, None),
        ({"type": "REFERENCE", "reference": {"name": "n"}}, None),
        ({"type": "UNKNOWN"}, None),
        ({"type": "VALUE", "value": {"data": ""}, "reference": {"name": "n"}}, "must not have the 'reference' field"),
        ({"type": "REFERENCE", "reference": {"name": "n"}, "value": {"data": ""}}, "Secret 'n' of type REFERENCE must"),
    ],
)
def test_secrets(secret: Info, words: str | None) -> None:
    problem = secret_problem(secret)
    assert problem is None if words is None else words in str(problem)


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"host_path": "/x"}, None),
        ({"image": {}}, None),
        ({"source": {"type": "SANDBOX_PATH", "sandbox_path": {}}}, None),
        ({"source": {}}, "'source.type' is unknown"),
        ({"source": {"type": "CSI_VOLUME"}}, "'source.csi_volume' is not set for CSI volume"),
        ({"source": {"type": "CSI_VOLUME", "csi_volume": {}}}, "'source.csi_volume.static_provisioning' is not set"),
        ({"source": {"type": "CSI_VOLUME", "csi_volume": {"static_provisioning": {}}}}, None),
    ],
)
def test_volumes(volume: Info, words: str | None) -> None:
    problem = volume_problem(volume)
    assert problem is None if words is None else str(problem).startswith(words)
    inside = container_problem({"type": "MESOS", "volumes": [volume]})
    assert inside == (None if problem is None else f"Invalid volume: {problem}")


def test_what_is_well_has_no_problem() -> None:
    assert command_problem({"value": "true"}) is None
    variables = [{"name": "A", "value": ""}, {"name": "B", "type": "SECRET", "secret": {"type": "UNKNOWN"}}]
    assert command_problem({"environment": {"variables": variables}}) is None
    assert container_problem({"type": "DOCKER", "docker": {"image": "i", "parameters": [{"key": "k"}]}}) is None
    assert check_problem({"type": "COMMAND", "command": {"command": {"value": "x"}}, "timeout_seconds": 0}) is None
    assert check_problem({"type": "HTTP", "http": {"port": 1}}) is None
    assert health_check_problem({"type": "HTTP", "http": {"port": 1, "scheme": "https", "path": "/"}}) is None
    assert health_check_problem({"type": "COMMAND", "command": {"value": "x"}}) is None


def test_a_check_needs_a_command_that_is_one() -> None:
    for command, words in (({}, "'shell command'"), ({"shell": False}, "'executable path'")):
        found = check_problem({"type": "COMMAND", "command": {"command": command}})
        assert found == f"Command check must contain {words}"
    command = {"value": "x", "environment": {"variables": [{"name": "A"}]}}
    found = check_problem({"type": "COMMAND", "command": {"command": command}})
    assert str(found).startswith("Check's `CommandInfo` is invalid: Environment variable 'A'")
