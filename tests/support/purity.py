"""The code that computes and does no I/O: packages that an import contract names, and modules that declare it.

A module declares it with the word "Pure" in its docstring. It may then import none of the modules that the contract
forbids to whole packages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.support.places import ROOT

PACKAGES = ("mesos_gpu", "marathon_cli")
PATHS_AS_VALUES = frozenset(
    {
        "marathon_cli.connection.settings",
        "mesos_gpu.local.members",
        "mesos_gpu.local.plan",
        "mesos_gpu.testing.plan",
    }
)
"""Modules that import pathlib and open nothing."""


@cache
def _contract() -> dict[str, Any]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (contract for contract in contracts if contract["name"].startswith("What decides does not act"))
    return found  # type: ignore[no-any-return]


def pure_packages() -> tuple[str, ...]:
    """Return the packages that do no I/O as a whole."""
    return tuple(_contract()["source_modules"])


@cache
def pure_modules() -> frozenset[str]:
    """Return the modules of other packages that declare themselves pure."""
    return frozenset(
        module
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not in_pure_package(module := _module(path)) and _declares_pure(path)
    )


def in_pure_package(module: str) -> bool:
    """Return whether the module belongs to a package that the contract names."""
    return any(f"{module}.".startswith(f"{package}.") for package in pure_packages())


def forbidden_imports(module: str) -> list[str]:
    """Return what the module imports, anywhere in it, although it declares itself pure."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    source = path if path.exists() else path.with_suffix("") / "__init__.py"
    forbidden = set(_contract()["forbidden_modules"]) - ({"pathlib"} if module in PATHS_AS_VALUES else set())
    return sorted({name for name in _imports(source) if name.partition(".")[0] in forbidden})


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def _declares_pure(path: Path) -> bool:
    text = path.read_text()
    return "Pure" in text and re.search(r"\bPure\b", ast.get_docstring(ast.parse(text)) or "") is not None


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
