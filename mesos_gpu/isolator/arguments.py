"""Validation of the arguments that callers pass to an isolator. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.plan import DeviceRule
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share

T = TypeVar("T")
MAX_ID_BYTES = 240
"""The file name of a record contains the container id, and file names are limited to 255 bytes."""


def container_id_of(value: object) -> ContainerId:
    """Return a valid container id: `name`, or `parent.child` for a nested container. Raises BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"a container id must be a string, not {_described(value)}")
    problem = _id_problem(value)
    if problem is not None:
        raise BadInput(f"{_described(value)} is not a valid container id: {problem}")
    return ContainerId(value)


def container_ids_of(values: object) -> frozenset[ContainerId]:
    """Return a collection of container ids as a set. Raises BadInput."""
    return frozenset(map(container_id_of, _items(values, "container ids")))


def gpu_count_of(container_id: ContainerId, gpus: object) -> int:
    """Return a whole number of GPUs; a Mesos scalar such as 2.0 is accepted. Raises BadInput."""
    if isinstance(gpus, bool) or not isinstance(gpus, int | float):
        raise BadInput(f"container {container_id}: the number of GPUs must be a number, not {_described(gpus)}")
    if not gpus == gpus // 1 or gpus in (float("inf"), float("-inf")):
        raise BadInput(
            f"container {container_id} cannot be given {gpus} GPUs: GPUs are whole ones, so request a whole number"
        )
    if gpus < 0:
        raise BadInput(f"container {container_id} cannot be given {gpus} GPUs")
    return int(gpus)


def gpus_of(values: object) -> frozenset[Gpu]:
    """Return a collection of GPUs as a set. Raises BadInput."""
    return frozenset(_each(values, Gpu, "GPUs", "each GPU must be a Gpu object from a driver"))


def lost_gpus_of(values: object) -> frozenset[HeldGpu]:
    """Return a collection of GPUs as they were recorded, as a set. Raises BadInput."""
    return frozenset(_each(values, HeldGpu, "lost GPUs", "each lost GPU must be a HeldGpu"))


def rules_of(values: object) -> tuple[DeviceRule, ...]:
    """Return rules of devices, in order. Raises BadInput."""
    return _each(values, DeviceRule, "device rules", "each device rule must be a DeviceRule")


def texts_of(values: object, what: str) -> frozenset[str]:
    """Return a collection of strings as a set. Raises BadInput, also for one string: it would be read as letters."""
    return frozenset(_each(values, str, what, f"{what} must be strings"))


def _each(values: object, kind: type[T], what: str, rule: str) -> tuple[T, ...]:
    """Return the items of a collection, which must all be of one type. Raises BadInput with the `rule`."""
    items = _items(values, what)
    for item in items:
        if not isinstance(item, kind):
            raise BadInput(f"{rule}, not {_described(item)}")
    return tuple(item for item in items if isinstance(item, kind))


def labels_of(container_id: ContainerId, values: object) -> Mapping[str, str]:
    """Return the labels of a task. Raises BadInput."""
    if not isinstance(values, Mapping) or not all(isinstance(text, str) for one in values.items() for text in one):
        raise BadInput(f"container {container_id}: labels must be a mapping of strings, not {_described(values)}")
    return values


def file_name_of(value: object, what: str) -> str:
    """Return a valid name of a file or folder. Raises BadInput."""
    problem = "it is not a string" if not isinstance(value, str) else _id_problem(value)
    if not isinstance(value, str) or problem is not None:
        raise BadInput(f"{_described(value)} is not valid as {what}: {problem}")
    return value


def flag_of(value: object, what: str) -> bool:
    """Return a flag. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{what} must be True or False, not {_described(value)}")
    return value


def pid_of(value: object) -> int:
    """Return a process id. Raises BadInput."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"the pid of a process must be a positive integer, not {_described(value)}")
    return value


def share_of(value: object) -> Share:
    """Return a share; it can have no parts. Raises BadInput."""
    if not isinstance(value, Share):
        raise BadInput(f"a share must be a Share, not {_described(value)}")
    return replace(value, parts=parts_of(value.parts), booked=parts_of(value.booked))


def parts_of(values: object) -> tuple[CardPart, ...]:
    """Return the parts of a share. Raises BadInput."""
    parts = _each(values, CardPart, "parts of a share", "each part of a share must be a CardPart")
    for part in parts:
        for number in (part.card, part.mem_units, part.weight):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise BadInput(f"the numbers of a CardPart must be non-negative integers, not {_described(number)}")
    return parts


def _id_problem(text: str) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if "/" in text or "\0" in text:
        return "it contains '/' or NUL"
    if not all(text.split(".")):
        return "it is empty, or a name before or after a dot is empty"
    if size > MAX_ID_BYTES:
        return f"it has {size} bytes, and the limit is {MAX_ID_BYTES}"
    return None


def _items(values: object, what: str) -> tuple[object, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadInput(f"{what} must be a collection, not {_described(values)}")
    return tuple(values)


def _described(value: object) -> str:
    """Return a value for an error message, shortened."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
