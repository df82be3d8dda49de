"""What users name: ids brought into their one form, and a hint when nothing has that name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mesos_gpu.errors import BadInput, InvalidApp, MesosGpuError, NotFound


def app_id(text: str) -> str:
    """Return the canonical id of an app or a pod. Raises BadInput for what cannot be one."""
    found = group_id(text)
    if found == "/":
        raise BadInput("/ is the root group; an app needs a name")
    return found


def group_id(text: str) -> str:
    """Return the canonical id of a group; `/` is the root. Raises BadInput for what cannot be one."""
    from mesos_gpu.marathon.definitions.app_ids import canonical_id

    try:
        return canonical_id("/" + text.lstrip("/"))
    except InvalidApp as error:
        problem = error.problems[0]
        raise BadInput(f"{problem.message}{f'; {problem.suggestion}' if problem.suggestion else ''}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or nothing."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=1)
    return f"; did you mean {near[0]}?" if near else ""


@contextmanager
def hints(name: str, known: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Add the nearest known name to a NotFound that comes up in the block."""
    try:
        yield
    except NotFound as error:
        try:
            hint = nearest(name, known())
        except MesosGpuError:
            hint = ""
        raise NotFound(f"{error}{hint}") from None
