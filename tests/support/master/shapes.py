"""Whether two JSON documents have one shape: the same keys, and values of the same types."""

from __future__ import annotations

from typing import Any

# Keys of a real master that say how it was built, or what it alone does.
NOT_OURS = frozenset({"git_sha"})


def differences(ours: Any, real: Any, path: str = "") -> list[str]:
    """Where the shapes differ, as paths. Items of lists are compared by name, else the first ones."""
    if isinstance(ours, dict) and isinstance(real, dict):
        missing = [f"{path}/{key} is missing" for key in sorted(set(real) - set(ours) - NOT_OURS)]
        extra = [f"{path}/{key} is not there in Mesos" for key in sorted(set(ours) - set(real))]
        both = [d for key in sorted(set(ours) & set(real)) for d in differences(ours[key], real[key], f"{path}/{key}")]
        return missing + extra + both
    if isinstance(ours, list) and isinstance(real, list):
        return [d for one, other in _pairs(ours, real) for d in differences(one, other, f"{path}()")]
    if type(ours) is not type(real):
        return [f"{path} is {type(ours).__name__}, in Mesos {type(real).__name__}"]
    return []


def _pairs(ours: list[Any], real: list[Any]) -> list[tuple[Any, Any]]:
    """What stands for what: items of one name, else the first items."""
    by_name = {item["name"]: item for item in reversed(real) if isinstance(item, dict) and "name" in item}
    named = [(item, by_name[item["name"]]) for item in ours if isinstance(item, dict) and item.get("name") in by_name]
    return named or list(zip(ours[:1], real[:1], strict=False))
