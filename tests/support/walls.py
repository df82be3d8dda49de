"""The import contracts of pyproject.toml, and imports that each of them has to refuse."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import itertools

from tests.support.places import ROOT

PACKAGES = ("mesos_gpu", "marathon_cli")
INTRUDER = "put_in_by_a_test"


@dataclass(frozen=True)
class Forbidden:
    """An import that the contract `contract` has to refuse, and the words it does so with."""

    contract: str
    importer: str
    imported: str
    words: str = ""

    @property
    def refusal(self) -> str:
        return self.words or f"{self.importer} -> {self.imported}"


@cache
def contracts() -> list[dict[str, Any]]:
    """Return the contracts as pyproject.toml has them."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return read["tool"]["importlinter"]["contracts"]  # type: ignore[no-any-return]


def forbidden_imports() -> Iterator[Forbidden]:
    """At least one import for every contract; for those that list names, one for every name on either side.

    An importer that is a package stands for a new module in it, which nobody imports: no other contract minds it.
    """
    for contract in contracts():
        name = contract["name"]
        match contract["type"]:
            case "layers":
                yield from _upwards(contract)
            case "acyclic_siblings":
                yield from _circle(name)
            case "forbidden":
                first, *_ = contract["forbidden_modules"]
                yield from (Forbidden(name, _inside(source), first) for source in contract["source_modules"])
                source = _inside(contract["source_modules"][0])
                yield from (Forbidden(name, source, module) for module in contract["forbidden_modules"])
            case "protected":
                (module,) = contract["protected_modules"]
                yield Forbidden(name, _inside("mesos_gpu.mesos"), module)
            case kind:
                raise AssertionError(f"contract {name!r}: say here which import a contract of type {kind} refuses")


def put(found: Forbidden, copy: Path) -> None:
    """Write a forbidden import into a copy of the tree."""
    path = (copy / found.importer.replace(".", "/")).with_suffix(".py")
    with path.open("a") as file:
        file.write(f"\nimport {found.imported}\n")


def deciding_rooms() -> tuple[str, ...]:
    """Return the packages that decide and do not act."""
    return tuple(_named("What decides does not act:")["source_modules"])


def deciding_modules() -> tuple[str, ...]:
    """Return the modules that decide and do not act, in rooms that do both."""
    return tuple(_named("What decides does not act, in")["source_modules"])


def _named(beginning: str) -> dict[str, Any]:
    (contract,) = (contract for contract in contracts() if contract["name"].startswith(beginning))
    return contract


def broken(output: str) -> dict[str, str]:
    """Return what `lint-imports` says of each contract that it found broken."""
    _, _, text = output.partition("Broken contracts")
    parts = re.split(r"^(.+(?:\n.+)?)\n-{3,}$", text.partition("\n")[2], flags=re.M)
    return {" ".join(name.split()): said for name, said in zip(parts[1::2], parts[2::2], strict=True)}


def _upwards(contract: dict[str, Any]) -> Iterator[Forbidden]:
    """From every layer to the one above it."""
    for top in contract.get("containers", [""]):
        layers = [re.split(r"\s*\|\s*", layer) for layer in contract["layers"]]
        for above, below in itertools.pairwise(layers):
            importer, imported = (f"{top}.{name}".lstrip(".") for name in (below[0], above[0]))
            yield Forbidden(contract["name"], _inside(importer), imported)
        for beside in layers:
            for one, other in itertools.pairwise(beside):
                importer, imported = (f"{top}.{name}".lstrip(".") for name in (one, other))
                yield Forbidden(contract["name"], _inside(importer), imported)


def _circle(contract: str) -> Iterator[Forbidden]:
    """Two new modules of one package, each importing the other."""
    package = "mesos_gpu.framework"
    one, other = (f"{package}.{INTRUDER}_{number}" for number in (1, 2))
    for importer, imported in ((one, other), (other, one)):
        yield Forbidden(contract, importer, imported, f"No cycles are allowed in {package}.")


def _inside(module: str) -> str:
    """Return a new module in a package, or a module itself."""
    return f"{module}.{INTRUDER}" if (ROOT / module.replace(".", "/")).is_dir() else module
