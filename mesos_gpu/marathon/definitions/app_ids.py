"""Marathon's app ids: paths of names, relative or absolute."""

from __future__ import annotations

import re

from mesos_gpu.errors import InvalidApp, Problem

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SEGMENT = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_STEPS = ("", ".", "..")
RESERVED_NAMES = frozenset({"restart", "tasks", "versions", ".", ".."})
"""What the last name of an app may not be, because the API's own paths end so."""


def canonical_id(text: str, base: str = "/") -> str:
    """Return `text` as an absolute id: one slash in front, none behind, `.` and `..` resolved.

    A relative id counts from `base`; going up from the root stays there. The answer may be `/`.
    Raises InvalidApp, path `/id`, when a name has characters that Marathon refuses.
    Source: Marathon PathId (its validator and `canonicalPath`).
    """
    names = [] if text.startswith("/") else [name for name in base.split("/") if name]
    for name in text.split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in _STEPS:
            if not _SEGMENT.fullmatch(name):
                raise InvalidApp([id_problem("/id", text)], stage="Invalid JSON")
            names.append(name)
    return "/" + "/".join(names)


def id_problem(path: str, text: str) -> Problem:
    """Say what is wrong with the id `text`, and offer one like it that is right."""
    near = "/".join(re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") for name in text.split("/"))
    good = near.strip("/") and all(name == "" or _SEGMENT.fullmatch(name) for name in near.split("/"))
    return Problem(
        path,
        "error.pattern",
        f"{text!r} is not an id: names of lower-case letters, digits, `-` (not at the ends) and `.`, joined by `/`",
        f"write `{near}`" if good else None,
    )


def name_problem(app_id: str) -> Problem | None:
    """Say why an app may not have the canonical `app_id`, or None."""
    if app_id == "/":
        return Problem("/id", "must not be the root path", "`/` is the root group; an app needs a name", None)
    last = app_id.rpartition("/")[2]
    if last in RESERVED_NAMES:
        sentence = f"the last name of an app's id must not be `{last}`, which Marathon's API uses itself"
        return Problem("/id", sentence, sentence, "choose another name")
    return None


def parent_id(app_id: str) -> str:
    """Return the group of a canonical id."""
    return app_id.rpartition("/")[0] or "/"


def top_group(app_id: str) -> str | None:
    """Return the name of the top-level group a canonical id lies in, or None directly under the root."""
    names = app_id.strip("/").split("/")
    return names[0] if len(names) > 1 else None
