"""What a definition says of a volume that outlives tasks, in an app or a pod: what is filled in, what is wrong. Pure.

Source: Marathon raml/VolumeConversion, state/Volume (PersistentVolumeInfo's validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.patterns import PATTERN_ADVICE, pattern_problem


def completed(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return a volume of any kind; a persistent one with its kind of disk, which a profile makes a whole one."""
    if "persistent" not in volume:
        return dict(volume)
    kind = "mount" if "profileName" in volume["persistent"] else "root"
    return {**volume, "persistent": {"type": kind, **volume["persistent"]}}


def disk_problems(path: str, disk: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the disk that a persistent volume asks for; `path` is where it is asked."""
    if disk["size"] <= 0:
        yield _wrong(f"{path}/size", "must be more than 0 MiB")
    if "maxSize" in disk and (disk["type"] != "mount" or disk["maxSize"] <= disk["size"]):
        yield _wrong(f"{path}/maxSize", "only for the type mount, and must be more than size")
    if disk["type"] == "root" and disk["constraints"]:
        yield _wrong(f"{path}/constraints", "a root disk takes no constraints")
    for constraint in disk["constraints"]:
        if constraint[0] != "path" or constraint[1].upper() not in ("LIKE", "UNLIKE"):
            yield _wrong(f"{path}/constraints", "only `path` with LIKE or UNLIKE")
        elif len(constraint) < 3:
            yield _wrong(f"{path}/constraints", f"{constraint[1].upper()} needs a regular expression: there is none")
        elif problem := pattern_problem(constraint[2]):
            sentence = f"{constraint[1].upper()} needs a regular expression: {problem}"
            yield Problem(f"{path}/constraints", sentence, sentence, PATTERN_ADVICE)


def _wrong(path: str, sentence: str) -> Problem:
    return Problem(path, sentence, sentence)
