"""What callers pass to an isolator, checked before anything is done with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share

MAX_ID_BYTES = 240
"""A record is a file that is named by the id of its container, and names of files have 255 bytes at most."""


def container_id_of(value: object) -> ContainerId:
    """Return the id of a container, such as `name`, or `parent.child` for a nested one. Raises BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"the id of a container must be a string, not {_described(value)}")
    problem = _id_problem(value)
    if problem is not None:
        raise BadInput(f"{_described(value)} cannot be the id of a container: {problem}")
    return ContainerId(value)


def container_ids_of(values: object) -> frozenset[ContainerId]:
    """Return the ids of several containers. Raises BadInput."""
    return frozenset(map(container_id_of, _items(values, "ids of containers")))


def gpu_count_of(container_id: ContainerId, gpus: object) -> int:
    """Return a number of whole GPUs, which Mesos writes as a scalar: 2.0. Raises BadInput."""
    if isinstance(gpus, bool) or not isinstance(gpus, int | float):
        raise BadInput(f"container {container_id}: the number of GPUs must be a number, not {_described(gpus)}")
    if not gpus == gpus // 1 or gpus in (float("inf"), float("-inf")):
        raise BadInput(f"container {container_id} cannot be given {gpus} GPUs: it holds whole ones")
    if gpus < 0:
        raise BadInput(f"container {container_id} cannot be given {gpus} GPUs")
    return int(gpus)


def gpus_of(values: object) -> frozenset[Gpu]:
    """Return GPUs. Raises BadInput for what is none."""
    gpus = _items(values, "GPUs")
    for gpu in gpus:
        if not isinstance(gpu, Gpu):
            raise BadInput(f"a GPU must be a Gpu that a driver lists, not {_described(gpu)}")
    return frozenset(gpu for gpu in gpus if isinstance(gpu, Gpu))


def texts_of(values: object, what: str) -> frozenset[str]:
    """Return several strings; a single one is refused, for it would be taken for its letters. Raises BadInput."""
    texts = _items(values, what)
    for text in texts:
        if not isinstance(text, str):
            raise BadInput(f"{what} must be strings, not {_described(text)}")
    return frozenset(text for text in texts if isinstance(text, str))


def labels_of(container_id: ContainerId, values: object) -> Mapping[str, str]:
    """Return labels of a task. Raises BadInput."""
    if not isinstance(values, Mapping) or not all(isinstance(text, str) for one in values.items() for text in one):
        raise BadInput(f"container {container_id}: labels must be a mapping of strings, not {_described(values)}")
    return values


def file_name_of(value: object, what: str) -> str:
    """Return what becomes the name of a file or folder. Raises BadInput."""
    problem = "it is no string" if not isinstance(value, str) else _id_problem(value)
    if not isinstance(value, str) or problem is not None:
        raise BadInput(f"{_described(value)} cannot be {what}: {problem}")
    return value


def flag_of(value: object, what: str) -> bool:
    """Return a flag. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{what} must be True or False, not {_described(value)}")
    return value


def numbers_of(values: object, what: str) -> frozenset[int]:
    """Return several numbers of at least 0, such as indices of GPUs. Raises BadInput."""
    numbers = _items(values, what)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise BadInput(f"{what} must be whole numbers of at least 0, not {_described(number)}")
    return frozenset(number for number in numbers if isinstance(number, int))


def pid_of(value: object) -> int:
    """Return the number of a process. Raises BadInput."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"the pid of a process must be a positive integer, not {_described(value)}")
    return value


def share_of(value: object) -> Share:
    """Return a share, possibly of no part. Raises BadInput."""
    if not isinstance(value, Share):
        raise BadInput(f"a share must be a Share, not {_described(value)}")
    return replace(value, parts=parts_of(value.parts), booked=parts_of(value.booked))


def parts_of(values: object) -> tuple[CardPart, ...]:
    """Return parts of shared GPUs. Raises BadInput."""
    parts = []
    for part in _items(values, "parts of GPUs"):
        if not isinstance(part, CardPart):
            raise BadInput(f"a part of a GPU must be a CardPart, not {_described(part)}")
        for number in (part.card, part.mem_units, part.weight):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise BadInput(f"a part of a GPU has whole numbers of at least 0, not {_described(number)}")
        parts.append(part)
    return tuple(parts)


def _id_problem(text: str) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if "/" in text or "\0" in text:
        return "it has a '/' or a NUL character"
    if not all(text.split(".")):
        return "it, or the name before or after one of its dots, is empty"
    if size > MAX_ID_BYTES:
        return f"it has {size} bytes, and {MAX_ID_BYTES} are allowed"
    return None


def _items(values: object, what: str) -> tuple[object, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadInput(f"{what} must be a collection, not {_described(values)}")
    return tuple(values)


def _described(value: object) -> str:
    """Return a value for an error message, shortened."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
