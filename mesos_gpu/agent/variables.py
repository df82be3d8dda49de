"""A command's environment variables: plain values, and secrets by value. Pure.

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
    name = variable["name"]
    if secret is None or secret.get("type", "VALUE") != "VALUE" or "value" not in secret:
        raise BadInput(f"The secret for the variable '{name}' is a reference, and this agent has no secret resolver")
    try:
        return base64.b64decode(secret["value"]["data"], validate=True).decode()
    except (KeyError, binascii.Error, UnicodeDecodeError):
        raise BadInput(f"The secret for the variable '{name}' is not text") from None
