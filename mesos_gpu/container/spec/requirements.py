"""Whether the NVIDIA driver is what an image needs: NVIDIA_REQUIRE_* and CUDA_VERSION. Pure.

Source: libnvidia-container, `src/cli/dsl.c`: words are alternatives, of which one must hold; comma-separated conditions
of a word must all hold; conditions on what is not known here (such as `arch` and `brand` without a GPU) hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from mesos_gpu.images.manifest import ImageConfig

_CONDITION = re.compile(r"([a-z]+)(>=|<=|!=|=|<|>)(.+)")
_COMPARE: Mapping[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
_PREFIX, _CUDA, _DISABLE = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE"
_SHOWN = 200
_TRUE = ("1", "true", "yes", "on")


class DriverFacts(Struct, frozen=True):
    """What images may ask of a driver: its version, and the newest CUDA that it runs; None where that is not known."""

    version: str | None = None
    cuda: str | None = None


def unmet(image: ImageConfig, driver: DriverFacts) -> str | None:
    """Return in words what the image needs and the driver is not, naming both versions; None when all is well.

    What the image asks stands in its environment, or else in a label of the same name. Only the image is asked: a task
    cannot wish its needs away, but for the image's own NVIDIA_DISABLE_REQUIRE.
    """
    said = {**{k: v for k, v in image.labels.items() if k.startswith("NVIDIA_")}, **image.env}
    if said.get(_DISABLE, "").lower() in _TRUE:
        return None
    asked = {name: text for name, text in said.items() if name.startswith(_PREFIX)}
    if _CUDA not in asked and (version := said.get("CUDA_VERSION")):
        asked[_CUDA] = f"cuda>={'.'.join(version.split('.')[:2])}"
    for name, text in sorted(asked.items()):
        words = text.split()
        if words and not any(all(_holds(part, driver) for part in word.split(",") if part) for word in words):
            have = f"CUDA {driver.cuda or 'of unknown version'} (driver {driver.version or 'of unknown version'})"
            need = f"{text.strip()[:_SHOWN]} ({name[:_SHOWN]})"
            return f"the image needs {need}, and this machine's NVIDIA driver has {have}"
    return None


def _holds(condition: str, driver: DriverFacts) -> bool:
    found = _CONDITION.fullmatch(condition)
    if found is None:
        return True
    name, sign, wanted = found.groups()
    have = {"cuda": driver.cuda, "driver": driver.version}.get(name)
    if have is None:
        return True
    ours, theirs = _numbers(have), _numbers(wanted)
    width = max(len(ours), len(theirs))
    return _COMPARE[sign](_padded(ours, width), _padded(theirs, width))


def _numbers(version: str) -> tuple[int, ...]:
    # int() takes no more than 4300 digits; so many are more than any version has, cut off or not.
    return tuple(int(number.lstrip("0")[:20] or "0") for number in re.findall(r"\d+", version)[:4])


def _padded(numbers: tuple[int, ...], width: int) -> tuple[int, ...]:
    return numbers + (0,) * (width - len(numbers))
