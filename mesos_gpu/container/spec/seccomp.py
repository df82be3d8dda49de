"""Which system calls a container may make: profiles in Docker's format, as Mesos reads them. Pure.

A profile's rules may depend on capabilities, on the machine's architecture and on the kernel; what an OCI runtime reads
is made for one container, without conditions. Source: Mesos src/linux/seccomp/seccomp_parser.cpp; the format is that of
moby/profiles seccomp/default.json.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadInput

ACTIONS = frozenset(f"SCMP_ACT_{name}" for name in ("ALLOW", "ERRNO", "KILL", "LOG", "TRACE", "TRAP"))
KILLS = frozenset({"SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD"})
OPERATORS = frozenset(f"SCMP_CMP_{name}" for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))
NAMES: Mapping[str, str] = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "i686": "x86",
}
"""What profiles call a machine that uname(2) calls so."""
ARCHITECTURES: Mapping[str, tuple[str, ...]] = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
    "ppc64le": ("SCMP_ARCH_PPC64LE",),
    "s390x": ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
    "riscv64": ("SCMP_ARCH_RISCV64",),
}
"""By which conventions programs may make calls on a machine: without its own, a call by another would be no call that
a rule is about."""
MAX_ARGUMENTS = 6


class Machine(Struct, frozen=True):
    """What rules may depend on of a machine, as uname(2) tells: `x86_64`, and the kernel's first two numbers."""

    architecture: str
    kernel: tuple[int, int]


class _Rule(Struct, frozen=True):
    names: tuple[str, ...]
    action: str
    errno: int | None
    arguments: tuple[Mapping[str, Any], ...]
    includes: Mapping[str, Any]
    excludes: Mapping[str, Any]

    def holds(self, machine: Machine, capabilities: Collection[str]) -> bool:
        """Return whether the rule is one of a container with these capabilities on this machine."""
        wanted, refused = self.includes, self.excludes
        here = NAMES.get(machine.architecture, machine.architecture)
        if wanted.get("arches") and here not in wanted["arches"]:
            return False
        if not set(wanted.get("caps") or ()) <= set(capabilities):
            return False
        if wanted.get("minKernel") and machine.kernel < _kernel(str(wanted["minKernel"])):
            return False
        if here in (refused.get("arches") or ()) or set(refused.get("caps") or ()) & set(capabilities):
            return False
        return not (refused.get("minKernel") and machine.kernel >= _kernel(str(refused["minKernel"])))


class Profile(Struct, frozen=True):
    """What may be done by default, and what of it may (not)."""

    action: str
    errno: int | None
    rules: tuple[_Rule, ...]
    architectures: tuple[str, ...] = ()

    def document(self, machine: Machine, capabilities: Collection[str]) -> dict[str, Any]:
        """Return `linux.seccomp` of an OCI bundle, for a container that may have these capabilities."""
        own = self.architectures or ARCHITECTURES.get(machine.architecture, ())
        errno = {} if self.errno is None else {"defaultErrnoRet": self.errno}
        held = [rule for rule in self.rules if rule.holds(machine, capabilities)]
        return {
            "defaultAction": self.action,
            **errno,
            **({"architectures": list(own)} if own else {}),
            "syscalls": [
                {
                    "names": list(rule.names),
                    "action": rule.action,
                    **({} if rule.errno is None else {"errnoRet": rule.errno}),
                    **({"args": [dict(argument) for argument in rule.arguments]} if rule.arguments else {}),
                }
                for rule in held
            ],
        }


def read_profile(document: Any, name: str) -> Profile:
    """Return the profile of a document in Docker's format. Raises BadInput, with what of it is not one."""

    def wrong(what: str) -> BadInput:
        return BadInput(f"Failed to parse Seccomp profile '{name}': {what}")

    if not isinstance(document, dict):
        raise wrong("it is not a JSON object")
    action = document.get("defaultAction")
    if action not in ACTIONS | KILLS:
        raise wrong(f"defaultAction is {action!r}, and not one of {', '.join(sorted(ACTIONS | KILLS))}")
    entries = document.get("syscalls")
    if not isinstance(entries, list):
        raise wrong("it has no list of syscalls")
    try:
        rules = tuple(_read_rule(entry) for entry in entries)
        named = [str(one) for one in document.get("architectures") or ()]
        for entry in document.get("archMap") or ():
            named += [str(entry["architecture"]), *map(str, entry.get("subArchitectures") or ())]
    except (BadInput, KeyError, TypeError, ValueError, AttributeError) as error:
        raise wrong(f"{type(error).__name__}: {error}" if not isinstance(error, BadInput) else str(error)) from None
    # An archMap is of all machines there are; a runtime takes those that its own library knows, all of them.
    own = () if document.get("archMap") else tuple(dict.fromkeys(named))
    return Profile(str(action), _errno(document.get("defaultErrnoRet")), rules, own)


def _read_rule(entry: Mapping[str, Any]) -> _Rule:
    names = entry.get("names") or ([entry["name"]] if entry.get("name") else [])
    if not names or not all(isinstance(name, str) and name for name in names):
        raise BadInput("a rule of syscalls names no system call")
    action = entry.get("action")
    if action not in ACTIONS | KILLS:
        raise BadInput(f"the action of {names[0]} is {action!r}, and not one of {', '.join(sorted(ACTIONS | KILLS))}")
    arguments = tuple(_read_argument(argument, names[0]) for argument in entry.get("args") or ())
    return _Rule(
        tuple(names),
        str(action),
        _errno(entry.get("errnoRet")),
        arguments,
        dict(entry.get("includes") or {}),
        dict(entry.get("excludes") or {}),
    )


def _read_argument(argument: Mapping[str, Any], name: str) -> dict[str, Any]:
    index, operator = int(argument["index"]), str(argument["op"])
    if not 0 <= index < MAX_ARGUMENTS or operator not in OPERATORS:
        raise BadInput(f"an argument of {name} is number {index} and compared by {operator}")
    read = {"index": index, "value": int(argument["value"]), "op": operator}
    return {**read, "valueTwo": int(argument["valueTwo"])} if argument.get("valueTwo") is not None else read


def _errno(number: Any) -> int | None:
    return None if number is None else int(number)


def _kernel(text: str) -> tuple[int, int]:
    first, _, rest = text.partition(".")
    return int(first), int(rest.partition(".")[0] or 0)


def read_machine(architecture: str, release: str) -> Machine:
    """Return a machine by what uname(2) says of it; a release that is not a version counts as the oldest."""
    digits = "".join(one if one.isdecimal() else "." for one in release).split(".")
    numbers = [int(one) for one in digits if one] + [0, 0]
    return Machine(architecture, (numbers[0], numbers[1]))


def rules(names: Sequence[str] | str, action: str = "SCMP_ACT_ALLOW", **more: Any) -> dict[str, Any]:
    """Return one entry of `syscalls`; `names` may be text with blanks between them."""
    return {"names": names.split() if isinstance(names, str) else list(names), "action": action, **more}
