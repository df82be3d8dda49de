"""Flags of service programs: each is one typed field, from which parsing, bounds, units, help and display follow. Pure.

A program's flags are a class. The type of a field says how its text is read, its value the rest:

    port: int = flag(5050, "Port to listen on.", at_least=0, at_most=65535)

A `required` flag must be given. A value is taken from `--name=value`, `--name value`, `--name` and `--no-name`
(booleans), or from the environment (`MESOS_NAME`); `file:///path` stands for the content of a file. Flags of Mesos and
Marathon that have no meaning in mesos-gpu are rows of data (`InertFlag`), so that the command line of an existing unit
file can be kept. Reading a file and the environment is left to the caller.
Source: Mesos 3rdparty/stout/include/stout/flags.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.units import format_duration, parse_bytes, parse_duration

_TRUE, _FALSE = {"true", "1"}, {"false", "0"}


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"'{text}' is not true or false")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def _milliseconds(text: str) -> float:
    if (count := _integer(text)) < 0:
        raise ValueError(f"{count} is negative")
    return count / 1000


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a type are read from text, and written as JSON and as text."""

    read: Callable[[str], Any]
    json: Callable[[Any], Any] = lambda value: value
    text: Callable[[Any], str] = str


TEXT = Kind(str)
PATH = Kind(str)
INTEGER = Kind(_integer)
NUMBER = Kind(_number)
BOOLEAN = Kind(_boolean, text=lambda value: str(value).lower())
LIST = Kind(_list, json=list, text=",".join)
DURATION = Kind(parse_duration, text=format_duration)
MILLISECONDS = Kind(
    _milliseconds,
    json=lambda seconds: round(seconds * 1000),
    text=lambda seconds: str(round(seconds * 1000)),
)
BYTES = Kind(parse_bytes)

PathText: TypeAlias = Annotated[str, PATH]
"""The path of a file or folder, or what such a file would contain. `file:///path` is the path, never the content."""
Duration: TypeAlias = Annotated[float, DURATION]
"""Seconds, written as Mesos writes durations: `15secs`."""
Milliseconds: TypeAlias = Annotated[float, MILLISECONDS]
"""Seconds, written as Marathon writes durations: a whole number of milliseconds."""
Bytes: TypeAlias = Annotated[int, BYTES]
"""Bytes, written as Mesos writes sizes: `32MB`."""
_KINDS: Mapping[Any, Kind] = {str: TEXT, int: INTEGER, float: NUMBER, bool: BOOLEAN, tuple[str, ...]: LIST}


@dataclass(frozen=True, slots=True)
class Flag:
    """What is known of a flag. Name and kind are those of the field that it describes."""

    help: str
    default: Any = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    one_of: Collection[str] = ()
    """The values that are allowed, of a list for each item; empty: any."""
    required: str = ""
    """What to give, of a flag that must be given; empty: it may be left out."""
    shown_in: str | None = None
    """The part of Marathon's /v2/info that shows it."""
    name: str = ""
    kind: Kind = TEXT

    @property
    def default_text(self) -> str:
        """Return the default as it would be written on the command line; empty without one."""
        return "" if self.default is None else self.kind.text(self.default)

    def read(self, text: str) -> Any:
        """Return the value that a text stands for. Raises ValueError if there is none, or it is not allowed."""
        value = self.kind.read(text)
        items = value if isinstance(value, tuple) else (value,)
        if self.one_of and (strange := [item for item in items if item not in self.one_of]):
            choice = "one of " if len(self.one_of) > 1 else ""
            raise ValueError(f"'{strange[0]}' is not supported; use {choice}{', '.join(self.one_of)}")
        bounds = (
            ("at least", self.at_least, operator.ge),
            ("more than", self.above, operator.gt),
            ("at most", self.at_most, operator.le),
        )
        limits = [(words, limit, keeps) for words, limit, keeps in bounds if limit is not None]
        if not all(keeps(value, limit) for _, limit, keeps in limits):
            allowed = " and ".join(f"{words} {self.kind.text(limit)}" for words, limit, _ in limits)
            raise ValueError(f"{text} is out of range; use {allowed}")
        return value


@dataclass(frozen=True, slots=True)
class InertFlag:
    """A flag of Mesos or Marathon that has no meaning here, and the reason.

    `accepted`: the values that change nothing that anyone relies on; None for any. Other values are refused.
    """

    name: str
    why: str
    accepted: tuple[str, ...] | None = None
    kind: Kind = TEXT


def ignored(why: str, *names: str, kind: Kind = TEXT) -> list[InertFlag]:
    """Return flags that tune, watch or log: any value is accepted, and reported at start."""
    return [InertFlag(name, why, None, kind) for name in names]


def refused(why: str, *names: str, accepted: tuple[str, ...] = (), kind: Kind = TEXT) -> list[InertFlag]:
    """Return flags that protect, identify or store something: they are refused, except for the values `accepted`."""
    return [InertFlag(name, why, accepted, kind) for name in names]


T = TypeVar("T")
Of = TypeVar("Of", bound="Flags")


def flag(
    default: T,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    one_of: Collection[str] = (),
    shown_in: str | None = None,
) -> T:
    """Return what describes a field of a class of flags; the type is what instances have there."""
    return cast(T, Flag(help, default, at_least, above, at_most, one_of, shown_in=shown_in))


def required(help: str, example: str, *, shown_in: str | None = None) -> Any:
    """Return what describes a field that has no default: `example` says what to give."""
    return Flag(help, required=example, shown_in=shown_in)


class Flags:
    """Values of flags, one for each field; they never change. A field of the class itself is the `Flag`."""

    def __init__(self, **values: Any) -> None:
        defaults = {flag.name: flag.default for flag in flags_of(type(self))}
        if unknown := values.keys() - defaults.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(defaults | values)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed; `replace` returns a copy")

    def replace(self: Of, **values: Any) -> Of:
        """Return a copy with other values."""
        return type(self)(**self.__dict__ | values)


class ProgramFlags(Flags):
    """The flags of every program."""

    ready_file: PathText | None = flag(None, "Write {pid, url, ...} as JSON to this file once the service can be used.")
    max_log_size: Bytes | None = flag(
        None,
        "Where the log (standard error) is a file: begin a new one when it is larger, and keep 4 older ones, NAME.1 to "
        "NAME.4; default: never.",
    )


class ServiceFlags(ProgramFlags):
    """The flags of services that web browsers can call."""

    http_hosts: tuple[str, ...] = flag(
        (),
        "Names by which browsers may come, beside addresses and the names of this machine and its domain: those that "
        "proxies give it, NAME, NAME:PORT or *.DOMAIN; * allows all, and then web pages of others may act as their "
        "reader.",
    )


class OperatorFlags(ServiceFlags):
    """The flags that master and agent share, with the same names, values and meanings."""

    ip: str = flag("127.0.0.1", "Address to listen on.")
    insecure: bool = flag(False, "Listen beyond this machine although callers need not show credentials.")
    json_suffixes: bool = flag(False, "Answer /state.json and its kin too, as Mesos did before 1.0.")
    authenticate_http_readonly: bool = flag(False, "Answer reads only of callers that show who they are.")
    authenticate_http_readwrite: bool = flag(False, "Let only callers that show who they are make changes.")
    acls: PathText | None = flag(
        None,
        "Who may do what: JSON as in Mesos, the path of a file with it, or file:///path; default: anybody, anything.",
    )
    login_hint: str | None = flag(None, "What callers are told, beside the refusal, who do not show who they are.")
    enable_gpu_isolation: bool | None = flag(
        None,
        "DC/OS' switch, of agents: with --no-enable_gpu_isolation one hands out no GPUs. A master takes it and has "
        "nothing to do for it; default: as --dcos_config says, else true.",
    )
    gpus_are_scarce: bool | None = flag(
        None,
        "DC/OS' switch, of masters: another name of --filter_gpu_resources. An agent takes it and does nothing for it; "
        "default: as --dcos_config says, else what --filter_gpu_resources says.",
    )
    dcos_config: PathText | None = flag(
        None,
        "DC/OS' config.yaml: of its keys enable_gpu_isolation and gpus_are_scarce count, where no flag says otherwise.",
    )
    same_user_peers: bool = flag(
        False,
        "Take libprocess messages from programs of this machine alone, and of these from root's and this user's only.",
    )


F = TypeVar("F", bound=ProgramFlags)


@dataclass(frozen=True, slots=True)
class CommandLine(Generic[F]):
    """The command line of a program: its flags, and those of the original program that are accepted without effect."""

    program: str
    prefix: str
    """Of environment variables."""
    flags: type[F]
    inert: Sequence[InertFlag] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)
    """Older names that the original program accepts, with the current ones."""
    off_prefix: str | None = None
    """With it, a boolean has a second name that switches it off: `--disable_name`."""

    def known(self) -> dict[str, Flag]:
        """Return every name that is accepted, with the flag that it sets."""
        own = {flag.name: flag for flag in flags_of(self.flags)}
        inert = {row.name: Flag("", name=row.name, kind=row.kind) for row in self.inert}
        named = inert | own
        old = {name: named[current] for name, current in self.old_names.items()}
        return old | {flag.name: flag for flag in self.off_switches()} | named

    def off_switches(self) -> list[Flag]:
        """Return the second names of booleans."""
        if self.off_prefix is None:
            return []
        switched = (flag.name for flag in flags_of(self.flags) if flag.kind is BOOLEAN)
        return [Flag("", name=f"{self.off_prefix}{name}", kind=BOOLEAN) for name in switched]

    @property
    def service_flags(self) -> tuple[Flag, ...]:
        """Return the flags of this program, without those that every program has."""
        of_all = {flag.name for flag in flags_of(ProgramFlags)}
        return tuple(flag for flag in flags_of(self.flags) if flag.name not in of_all)


def flags_of(flags: type[Flags]) -> tuple[Flag, ...]:
    """Return the flags that the fields of a class describe."""
    return _described(cast(Hashable, flags))


@cache
def _described(flags: Any) -> tuple[Flag, ...]:
    hints = get_type_hints(flags, include_extras=True)
    return tuple(replace(getattr(flags, name), name=name, kind=_kind(hint)) for name, hint in hints.items())


def _kind(annotation: Any) -> Kind:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (item for item in get_args(annotation) if item is not NoneType)
    if get_origin(annotation) is Annotated:
        return next(item for item in annotation.__metadata__ if isinstance(item, Kind))
    return _KINDS[annotation]


class HelpAsked(Exception):
    """`--help` was given; `str()` is the text to print."""


def parse_flags(
    line: CommandLine[F],
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    read_file: Callable[[str], str] | None = None,
) -> tuple[F, list[str]]:
    """Return the flags that were given, and a sentence about each that is accepted and has no effect.

    The command line wins over the environment. Unknown variables with the prefix are ignored, as Mesos does; unknown
    flags are not. Raises BadFlag, for refused flags of the original program one that names them all, or HelpAsked.
    """
    known = line.known()
    # Of each flag the name that it was given by, and its text.
    given: dict[str, tuple[str, str]] = {}
    for name, flag in known.items():
        text = environ.get(f"{line.prefix}{name.upper()}")
        if text is not None:
            given[flag.name] = name, text
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("--help", "-h"):
            raise HelpAsked(help_text(line))
        name, text = _split(word, known, rest)
        given[known[name].name] = name, text
    values = {known[flag].name: _read(known[flag], name, text, read_file) for flag, (name, text) in given.items()}
    said = _settle(line, values, {flag: name for flag, (name, _) in given.items()})
    for switch in line.off_switches():
        if values.get(switch.name):
            values[switch.name.removeprefix(line.off_prefix or "")] = False
    own = flags_of(line.flags)
    for flag in own:
        if flag.required and not values.get(flag.name):
            raise BadFlag(flag.name, f"is needed: {flag.required}")
    return line.flags(**{flag.name: values[flag.name] for flag in own if flag.name in values}), said


def _settle(line: CommandLine[F], values: Mapping[str, Any], given_as: Mapping[str, str]) -> list[str]:
    """Return what to report about inert flags. Raises BadFlag for those that are refused, so that all can be fixed."""
    said: list[str] = []
    wrong: list[tuple[str, str]] = []
    known = {row.name: row for row in line.inert}
    for name, value in values.items():
        row = known.get(name)
        if row is None:
            continue
        if row.accepted is None:
            said.append(f"--{given_as[name]} does nothing here: {row.why}")
        elif (text := row.kind.text(value).strip()) and text not in row.accepted:
            but = f"; only {' or '.join(row.accepted)} is accepted" if row.accepted else ""
            wrong.append((given_as[name], f"{row.why}{but}"))
    if wrong:
        (first, why), *more = wrong
        raise BadFlag(first, "; ".join([why, *(f"--{name}: {words}" for name, words in more)]))
    return said


def _split(word: str, known: Mapping[str, Flag], rest: list[str]) -> tuple[str, str]:
    """Return the name and text of the flag at `word`, taking its value from `rest` if it is a word of its own."""
    if not word.startswith("--"):
        raise BadFlag(word, "flags begin with --, and no other arguments are taken")
    name, equals, text = word[2:].partition("=")
    name = name.replace("-", "_") if name not in known and name.replace("-", "_") in known else name
    negated = name.removeprefix("no-").removeprefix("no_")
    if name not in known and negated in known and known[negated].kind is BOOLEAN:
        if equals:
            raise BadFlag(negated, f"--no-{negated} takes no value")
        return negated, "false"
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise BadFlag(name, f"unknown flag; did you mean --{near[0]}?" if near else "unknown flag; see --help")
    if equals:
        return name, text
    if known[name].kind is BOOLEAN:
        return name, "true"
    if not rest:
        raise BadFlag(name, "needs a value")
    return name, rest.pop(0)


def _read(flag: Flag, name: str, text: str, read_file: Callable[[str], str] | None) -> Any:
    if flag.kind is PATH:
        text = text.removeprefix("file://")  # the path is meant: the content may be a secret
    elif text.startswith("file://") and read_file is not None:
        try:
            text = read_file(text.removeprefix("file://")).strip()
        except OSError as error:
            raise BadFlag(name, f"cannot read {text}: {error.strerror}") from None
    if text == "" and flag.kind is BOOLEAN:
        return True  # Marathon's way of switching one on in the environment: MARATHON_HA=
    try:
        return flag.read(text)
    except ValueError as error:
        raise BadFlag(name, str(error)) from None


def help_text(line: CommandLine[F]) -> str:
    """Return what `--help` prints."""
    lines = [
        f"Usage: {line.program} [--flag=value ...]",
        "",
        f"Each flag may also be given as {line.prefix}<NAME> in the environment.",
        "",
    ]
    for flag in sorted(flags_of(line.flags), key=lambda flag: flag.name):
        name = f"--[no-]{flag.name}" if flag.kind is BOOLEAN else f"--{flag.name}=VALUE"
        default = "" if flag.default is None else f" (default: {flag.default_text})"
        lines.append(f"  {name}\n      {flag.help}{default}")
    return "\n".join(lines)


def flags_as_text(flags: Flags) -> dict[str, str]:
    """Return the flags that have a value by name, as `/flags` and `/state` show them: no URL with its credentials."""
    values = ((flag, getattr(flags, flag.name)) for flag in flags_of(type(flags)))
    texts = {flag.name: flag.kind.text(value) for flag, value in sorted(values, key=_name) if value is not None}
    return {name: without_credentials(text) for name, text in texts.items()}


_CREDENTIALS = re.compile("://[^/]*@")
"""What stands before the hosts of a URL (RFC 3986, 3.2.1): `zk://user:password@host:2181/mesos`."""


def without_credentials(text: str) -> str:
    """Return a text without the credentials of the URLs that are in it."""
    return _CREDENTIALS.sub("://", text)


def _name(item: tuple[Flag, Any]) -> str:
    return item[0].name


_ADDRESSES = frozenset({"IP", "PORT", "ADVERTISE_IP", "ADVERTISE_PORT"})
"""Variables that libprocess reads with its own prefix, and that are flags here."""
_OF_OTHERS = ("MESOS_NATIVE_", "MESOS_URL", "MESOS_GPU_")
"""What libmesos and the command line of mesos-gpu read."""


def strangers(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return a sentence about each variable that looks like a flag and is not read: MESOS_*, LIBPROCESS_*.

    Variables of the command line, or of Mesos's driver, are reported only if they look like a misspelled flag.
    """
    said: list[str] = []
    for name in sorted(environ):
        if name.startswith("LIBPROCESS_") and not name.startswith("LIBPROCESS_SSL_"):
            instead = f": say --{name[11:].lower()}" if name[11:] in _ADDRESSES else ""
            said.append(f"{name} is not read{instead}")
        elif name.startswith("MESOS_") and name[6:].lower() not in known:
            of_others = name.startswith(_OF_OTHERS)
            like = [flag for flag in known if not of_others or flag.startswith("gpu_")]
            near = difflib.get_close_matches(name[6:].lower(), like, n=1, cutoff=0.8)
            if near:
                said.append(f"{name} is not read: there is no such flag; did you mean MESOS_{near[0].upper()}?")
            elif not of_others:
                said.append(f"{name} is not read: there is no such flag")
    return said
