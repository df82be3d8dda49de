"""A command's environment variables, and secrets by value. Pure.

A secret that is a reference needs a module that knows secrets (Mesos' environment_secret isolator with a resolver), and
there is none here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from mesos_gpu.errors import BadInput


def read_variables(command: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a CommandInfo; the last of a name counts. Raises BadInput for an unreadable secret."""
    listed = (command.get("environment") or {}).get("variables", ())
    return {str(variable["name"]): _value(variable) for variable in listed}


def _value(variable: Mapping[str, Any]) -> str:
    secret = variable.get("secret")
    if variable.get("type") != "SECRET" and secret is None:
        return str(variable.get("value", ""))
    what = f"the variable '{variable['name']}'"
    try:
        return read_secret(secret or {}, what).decode()
    except UnicodeDecodeError:
        raise BadInput(f"The secret for {what} is not text") from None


def read_secret(secret: Mapping[str, Any], what: str) -> bytes:
    """Return the content of a Secret by value. Raises BadInput, naming `what` it is for."""
    if secret.get("type", "VALUE") != "VALUE" or "value" not in secret:
        raise BadInput(f"The secret for {what} is a reference, and this agent has no secret resolver")
    try:
        return base64.b64decode(secret["value"]["data"], validate=True)
    except (KeyError, binascii.Error):
        raise BadInput(f"The secret for {what} is not base64") from None
