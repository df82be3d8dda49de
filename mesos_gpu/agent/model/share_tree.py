"""The files of cGPU's /proc/cgpu_km for shared cards: what is in each, and what writing into one means. Pure.

Source: "Install and use cGPU on a Docker container", help.aliyun.com, its table of the files below /proc/cgpu_km. Their
`default_memsize`, `inst_ctl` and `upgrade` are switches of that kernel module, which is not here: they have one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.units import MIB

NVIDIA_MAJOR = 195
_CONSTANT = {"default_memsize": "0", "inst_ctl": "0", "upgrade": "0"}
_WHY_CONSTANT = "this agent has no such switch: it is 0 and stays so"
_MEMORY = "a task's memory is what was taken of the offer: launch it anew with another amount"

_OF_CARD: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "free_weight": lambda card: card["free_weight"],
    "major": lambda card: NVIDIA_MAJOR,
    "max_inst": lambda card: card["max_inst"],
    "policy": lambda card: card["policy"],
    "prio_ratio": lambda card: card["prio_ratio"],
}
_OF_CONTAINER: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "highprio": lambda one: int(one["high_priority"]),
    "id": lambda one: one["container_id"],
    "memsize": lambda one: one["memory_mib"] * MIB,
    "meminfo": lambda one: _meminfo(one),
    "weight": lambda one: one["weight"],
}
_WRITABLE = frozenset((*_CONSTANT, "max_inst", "policy", "prio_ratio", "highprio", "memsize", "weight"))


@dataclass(frozen=True, slots=True)
class Node:
    """A file with its text, or a folder with names; `writable`: something may be written into it."""

    text: str | None = None
    names: tuple[str, ...] = ()
    writable: bool = False


def node(cards: Sequence[Mapping[str, Any]], path: str, version: str) -> Node:
    """Return what lies at a path such as `/2/policy`; `cards` are those of /gpu_shares. Raises NotFound."""
    match path.strip("/").split("/"):
        case [""]:
            return Node(names=(*_CONSTANT, "version", *(str(card["index"]) for card in cards)))
        case [name] if name in _CONSTANT:
            return _file(name, _CONSTANT[name])
        case ["version"]:
            return _file("version", version)
        case [index]:
            card = _card(cards, index)
            return Node(names=(*_OF_CARD, *(str(one["container_id"]) for one in card["containers"])))
        case [index, name] if name in _OF_CARD:
            return _file(name, _OF_CARD[name](_card(cards, index)))
        case [index, container]:
            _container(_card(cards, index), container)
            return Node(names=tuple(_OF_CONTAINER))
        case [index, container, name] if name in _OF_CONTAINER:
            return _file(name, _OF_CONTAINER[name](_container(_card(cards, index), container)))
    raise NotFound(f"there is no {path}")


def written(cards: Sequence[Mapping[str, Any]], path: str, text: str) -> Document | None:
    """Return what `POST /gpu_shares/set` is told when this text is written into the file at a path.

    None: nothing, what is written is so already. Raises NotFound, and BadInput for what cannot be written there.
    """
    found = node(cards, path, "")
    name = path.rpartition("/")[2]
    if found.text is None or not found.writable:
        raise BadInput(f"{path} cannot be written")
    word = text.strip()
    if not word.isdecimal():
        raise BadInput(f"{path} takes a whole number, not '{word[:40]}'")
    number = int(word)
    if name in _CONSTANT or name == "memsize":
        if number != int(found.text):
            raise BadInput(f"{path} cannot be {number}: {_MEMORY if name == 'memsize' else _WHY_CONSTANT}")
        return None
    parts = path.strip("/").split("/")
    if len(parts) == 2:
        return {"card": int(parts[0]), name: number}
    if name == "highprio" and number > 1:
        raise BadInput(f"{path} takes 0 or 1, not {number}")
    said = {"high_priority": bool(number)} if name == "highprio" else {"weight": number}
    return {"container_id": parts[1], **said}


def _file(name: str, value: object) -> Node:
    return Node(f"{value}\n", writable=name in _WRITABLE)


def _meminfo(one: Mapping[str, Any]) -> str:
    """Return what is free of its part and what it has, in bytes; 0 where nobody tells."""
    used = int(one.get("memory_used_mib") or 0)
    return f"Free: {max(0, one['memory_mib'] - used) * MIB}\nUsed: {used * MIB}"


def _card(cards: Sequence[Mapping[str, Any]], index: str) -> Mapping[str, Any]:
    for card in cards:
        if str(card["index"]) == index:
            return card
    raise NotFound(f"there is no shared card {index}")


def _container(card: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    for one in card["containers"]:
        if one["container_id"] == container:
            return dict(one)
    raise NotFound(f"there is no container {container} on card {card['index']}")
