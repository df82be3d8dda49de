"""Values that users type: ids in their one form, with a hint if nothing has that name, and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

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
    import difflib

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


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class WholeGpus(Whole):
    """A number of GPUs, of which none is given in parts; who asks for a part is told how that is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. Raises click.BadParameter."""
        if re.fullmatch(r"\d*\.\d+", str(value)):
            self.fail(
                f"{str(value)!r} is no whole number; a part of a GPU that others share is asked for by its memory, "
                "for example `--gpu-mem 6GiB`.",
                param,
                ctx,
            )
        return int(super().convert(value, param, ctx))


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
