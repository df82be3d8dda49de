"""Principals and their secrets, as an agent's flags take them."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.mesos.security.authentication import basic_header

SECRETS = {"ops": "s3cret", "eve": "eavesdrop"}


JSON = {"Content-Type": "application/json"}


def secret_files(folder: Path) -> list[str]:
    credentials, key = folder / "http_credentials", folder / "jwt_key"
    credentials.write_text("".join(f"{name} {secret}\n" for name, secret in SECRETS.items()))
    key.write_text("a key that signs")
    for file in (credentials, key):
        file.chmod(0o600)
    return [f"--http_credentials={credentials}", f"--jwt_secret_key={key}"]


def as_(principal: str) -> dict[str, str]:
    return {"Authorization": basic_header(principal, SECRETS[principal])}
