"""Secrets are not shown."""

from __future__ import annotations

from mesos_gpu.mesos.security.secrets import without_secrets


def test_values_are_left_out_wherever_they_are_and_all_else_stays() -> None:
    secret = {"type": "VALUE", "value": {"data": "aHVzaA=="}}
    volume = {"container_path": "x", "source": {"type": "SECRET", "secret": secret}}
    shown = without_secrets({"container": {"volumes": [volume, {"host_path": "/"}]}, "name": "t"})
    assert shown == {
        "container": {
            "volumes": [
                {"container_path": "x", "source": {"type": "SECRET", "secret": {"type": "VALUE"}}},
                {"host_path": "/"},
            ]
        },
        "name": "t",
    }
    assert secret["value"] == {"data": "aHVzaA=="}


def test_a_document_without_any_is_the_same_object() -> None:
    plain = {"a": [{"secret": {"type": "REFERENCE"}}], "value": 1}
    assert without_secrets(plain) is plain
