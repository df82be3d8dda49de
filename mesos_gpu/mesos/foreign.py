"""Flags of Mesos' programs that ours know and do not act on: so that an existing unit file's line can be kept. Pure.

The rule, for each: what only tunes, watches or logs is accepted, and named in one warning at start. What somebody
relies on, a protection, an identity, a place where data goes, is refused with the reason, unless its value
means "without". A flag that a program comes to act on is among its own, and its row here no longer counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag

_ADDRESSES = frozenset({"IP", "PORT", "ADVERTISE_IP", "ADVERTISE_PORT"})
"""What libprocess reads of the environment, after its name, and is a flag here."""


class Foreign(Struct, frozen=True):
    """One flag: why it does nothing here. `without`: values that are accepted; None for any."""

    name: str
    why: str
    without: tuple[str, ...] | None = None
    kind: str = "text"

    @property
    def refused(self) -> bool:
        """Return whether a value may be refused."""
        return self.without is not None


def ignored(why: str, *names: str, kind: str = "text") -> list[Foreign]:
    """Return rows of flags of which any value is accepted."""
    return [Foreign(name, why, None, kind) for name in names]


def refused(why: str, *names: str, without: tuple[str, ...] = (), kind: str = "text") -> list[Foreign]:
    """Return rows of flags that are refused but for the values `without`."""
    return [Foreign(name, why, without, kind) for name in names]


def parser_flags(rows: Sequence[Foreign], own: Sequence[Flag], old_names: Mapping[str, str]) -> list[Flag]:
    """Return the flags that only rows or old names know, for the parser; `--help` leaves them out."""
    mine = {flag.name for flag in own}
    foreign = [Flag(row.name, row.kind, None, "") for row in rows if row.name not in mine]
    kinds = {flag.name: flag.kind for flag in (*own, *foreign)}
    return [*foreign, *(Flag(name, kinds[new], None, "") for name, new in old_names.items() if name not in mine)]


def settle(
    rows: Sequence[Foreign], flags: Mapping[str, Any], own: Collection[str], old_names: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the flags that a program acts on, and what it says at start about the others that were given.

    An old name of one that it acts on counts as that. Raises BadFlag for those that somebody relies on, all in one, so
    that a unit is mended in one go.
    """
    known = {row.name: row for row in rows}
    mine = {name: value for name, value in flags.items() if name in own}
    said: list[str] = []
    wrong: list[tuple[str, str]] = []
    for name, value in flags.items():
        row = known.get(old_names.get(name, name))
        if name in own or value is None:
            continue
        if old_names.get(name) in own:
            mine[old_names[name]] = value
        elif row is not None and row.without is not None and (text := _text(value)) and text not in row.without:
            but = f"; only {' or '.join(row.without)} is accepted" if row.without else ""
            wrong.append((name, f"{row.why}{but}"))
        elif row is not None and not row.refused:
            said.append(f"--{name} does nothing here: {row.why}")
    if wrong:
        (first, why), *more = wrong
        raise BadFlag(first, "; ".join([why, *(f"--{name}: {words}" for name, words in more)]))
    return mine, said


_OF_OTHERS = ("MESOS_NATIVE_", "MESOS_URL", "MESOS_GPU_")
"""What libmesos and our command line read."""


def strangers(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return what is said at start about the environment: MESOS_* that is no flag, LIBPROCESS_* that is not read.

    What the command line, or Mesos' driver, reads is nobody's mistake, unless it looks like a flag misspelled.
    """
    said: list[str] = []
    for name in sorted(environ):
        if name.startswith("LIBPROCESS_") and not name.startswith("LIBPROCESS_SSL_"):
            instead = f": say --{name[11:].lower()}" if name[11:] in _ADDRESSES else ""
            said.append(f"{name} is not read{instead}")
        elif name.startswith("MESOS_") and name[6:].lower() not in known:
            of_others = name.startswith(_OF_OTHERS)
            like = [flag for flag in known if not of_others or flag.startswith("gpu_")]
            near = get_close_matches(name[6:].lower(), like, n=1, cutoff=0.8)
            if near:
                said.append(f"{name} is not read: there is no such flag; did you mean MESOS_{near[0].upper()}?")
            elif not of_others:
                said.append(f"{name} is not read: there is no such flag")
    return said


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
