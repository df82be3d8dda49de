"""What a valid app may ask for that this scheduler cannot give yet: refused, so that nothing is silently left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem


def refuse_unsupported(app: Mapping[str, Any]) -> None:
    """Raise InvalidApp with everything in a canonical app that cannot be done yet."""
    problems = list(_problems(app))
    if problems:
        raise InvalidApp(problems)


def _problems(app: Mapping[str, Any]) -> Iterator[Problem]:
    for index, volume in enumerate(app.get("container", {}).get("volumes", [])):
        if "hostPath" not in volume:
            sentence = "only volumes with a hostPath are supported by this Marathon yet"
            yield _problem(f"/container/volumes({index})", sentence, "use a volume with `hostPath`")


def _problem(path: str, sentence: str, suggestion: str) -> Problem:
    return Problem(path, sentence, sentence, suggestion)
