"""What users name: ids brought into their one form, and a hint when nothing has that name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from mesos_gpu.errors import BadInput, InvalidApp, MesosGpuError, NotFound

Document = TypeVar("Document", bound=Mapping[str, Any])


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


def named(documents: Sequence[Document], ids: Sequence[str], what: str) -> list[Document]:
    """Return the documents with these ids, in their order; all of them when no id is given. Raises NotFound."""
    if not ids:
        return list(documents)
    by_id = {str(document.get("id")): document for document in documents}
    for name in ids:
        if name not in by_id:
            raise NotFound(f"there is no {what} {name}{nearest(name, by_id)}")
    return [by_id[name] for name in dict.fromkeys(ids)]


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
