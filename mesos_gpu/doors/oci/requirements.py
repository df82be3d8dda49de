"""Whether driver and GPUs are what an image requires, in the dialect of NVIDIA's C library. Pure.

Blanks part alternatives, commas what must hold together. Names are taken in any case; a version is dotted digits, and a
trailing `.0` is nothing. Source: NVIDIA/libnvidia-container `src/cli/dsl.c`, `src/cli/configure.c`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadInput, Conflict

_TERM = re.compile(r"([A-Za-z]+)(>=|<=|!=|=|<|>)(.+)")
_VERSION = re.compile(r"\d+(\.\d+)*")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MACHINE, _DEVICE = ("cuda", "driver"), ("arch", "brand")


def check_requirements(
    requirements: Iterable[tuple[str, str]], driver: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]
) -> None:
    """Raise Conflict saying what is required and what is here; BadInput for what is not an expression.

    `driver` is as the agent shows it (`version`, `cuda_version`), `gpus` are those that the container is given, with
    `arch` and `brand`; without any, what is required of GPUs holds.
    """
    machine = {"cuda": driver.get("cuda_version"), "driver": driver.get("version")}
    for name, text in requirements:
        groups = [[_parsed(term, name) for term in group.split(",")] for group in text.split()]
        judged: list[Mapping[str, Any] | None] = [*gpus] or [None]
        for gpu in judged:
            facts = {**machine, **({} if gpu is None else {key: gpu.get(key) for key in _DEVICE})}
            failed = [next((term for term in group if not _holds(term, facts, gpu)), None) for group in groups]
            if failed and None not in failed:
                raise Conflict(_words(failed[0], name, facts))  # type: ignore[arg-type]


_Term = tuple[str, str, str]


def _parsed(term: str, name: str) -> _Term:
    match = _TERM.fullmatch(term)
    if match is not None:
        key, sign, value = match[1].lower(), match[2], match[3]
        if key in _MACHINE or key == "arch":
            if _VERSION.fullmatch(value):
                return key, sign, value
        elif key == "brand" and sign in ("=", "!="):
            return key, sign, value.lower()
    raise BadInput(f"invalid expression '{term}' in {name}: write cuda>=12.4, driver<550, arch>=7.0 or brand=tesla")


def _holds(term: _Term, facts: Mapping[str, Any], gpu: Mapping[str, Any] | None) -> bool:
    key, sign, value = term
    if key in _DEVICE and gpu is None:
        return True
    have = facts.get(key)
    if have is None:
        return False
    if key == "brand":
        return _COMPARE[sign](str(have).lower(), value)
    return _COMPARE[sign](_numbers(str(have)), _numbers(value))


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.match(version)
    numbers = [int(number[:18]) for number in match[0].split(".")] if match is not None else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _words(term: _Term, name: str, facts: Mapping[str, Any]) -> str:
    key, sign, value = term
    said = f"unsatisfied condition: {key}{sign}{value} ({name}); here {key} is {facts.get(key) or 'not known'}"
    if key == "cuda" and sign == ">=":
        said += ". Update the NVIDIA driver to a newer version, or use an earlier CUDA image"
    return said
