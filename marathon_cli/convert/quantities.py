"""Quantities as Kubernetes and Docker write them. All raise ValueError with a sentence."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from marathon_cli.screen.units import read_size
from mesos_gpu.mesos.units import MIB

_KUBERNETES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]*))")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|h|m|s)")
_SECONDS = {"us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}


def kubernetes(text: str) -> Fraction:
    """Return a Kubernetes quantity such as `500m`, `1Gi` or `1e3` (apimachinery resource.Quantity)."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or (found[3] or "") not in _KUBERNETES:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2, 512Mi or 1Gi")
    return Fraction(found[1]) * (Fraction(10) ** int(found[2]) if found[2] else _KUBERNETES[found[3] or ""])


def cpus(text: str) -> float:
    """Return CPUs of a Kubernetes quantity, to a thousandth upwards, as Kubernetes rounds."""
    return math.ceil(kubernetes(text) * 1000) / 1000


def mib(text: str) -> int:
    """Return MiB of a Kubernetes quantity of bytes, rounded up."""
    return math.ceil(kubernetes(text) / MIB)


def docker_mib(text: str) -> int:
    """Return MiB of a size as Docker writes it: `512m`, `1.5g`, `1gb`, bytes without a unit; rounded up."""
    return math.ceil(read_size(text) / MIB)


def whole(text: str) -> int:
    """Return a whole number of things, such as GPUs. Fractions are refused, as Kubernetes and Mesos refuse them."""
    number = kubernetes(text)
    if number.denominator != 1:
        raise ValueError(f"{text!r} is not whole: GPUs are given out whole")
    return int(number)


def seconds(text: str) -> int:
    """Return seconds of a duration such as `90s` or `1m30s`, rounded up; of a bare number too."""
    if text.strip().isdigit():
        return int(text)
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration such as 30s or 1m30s")
    return math.ceil(sum(Fraction(number) * _SECONDS[unit] for number, unit in parts))


def part(text: str, of: int, *, upwards: bool) -> int:
    """Return how many of `of` a number or percentage is, rounded as Kubernetes rounds."""
    if text.endswith("%") and text[:-1].isdigit():
        exact = Fraction(int(text[:-1]) * of, 100)
        return math.ceil(exact) if upwards else math.floor(exact)
    if not text.isdigit():
        raise ValueError(f"{text!r} is neither a number nor a percentage")
    return int(text)
