"""What a MasterInfo says about where the master is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def address(master_info: Mapping[str, Any]) -> str:
    """Return the master's host and port."""
    return f"{master_info['hostname']}:{master_info['port']}"


def region(master_info: Mapping[str, Any]) -> str | None:
    """Return the master's region, None when it is in none."""
    fault = (master_info.get("domain") or {}).get("fault_domain") or {}
    found: str | None = (fault.get("region") or {}).get("name")
    return found
