"""Shared cards as the agent's endpoints show them, as values: with the names of tasks, and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mesos_gpu.agent.model.gpu_json import escaped
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.units import MIB

Names = Mapping[str, tuple[str, str]]
"""Framework and task of a container."""


def named(cards: Sequence[Mapping[str, Any]], names: Names, hidden: Collection[str] = ()) -> list[Document]:
    """Return cards with the framework and task of each container; containers that are `hidden` are left out."""
    found = []
    for card in cards:
        lists = {key: _named(card.get(key, ()), names, hidden) for key in ("containers", "suspended")}
        found.append({**card, **lists})
    return found


def _named(containers: Sequence[Mapping[str, Any]], names: Names, hidden: Collection[str]) -> list[Document]:
    found = []
    for one in containers:
        if one["container_id"] not in hidden:
            framework, task = names.get(one["container_id"], ("", ""))
            found.append({**one, **({"framework_id": framework, "task_id": task} if task else {})})
    return found


_OF_CARDS: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], float]]] = (
    ("policy", "How tasks take turns on the card: 0 fair to 5 native.", lambda card: card["policy"]),
    ("slices", "Into how many slices of compute the card is divided.", lambda card: card["max_inst"]),
    ("slices_free", "Slices of compute that are nobody's.", lambda card: card["free_weight"]),
)
_OF_TASKS: Sequence[tuple[str, str, str, Callable[[Mapping[str, Any]], float | None]]] = (
    ("weight", "gauge", "Asked: slices of compute.", lambda one: one["weight"]),
    ("memory_limit_bytes", "gauge", "Asked: memory of the card.", lambda one: one["memory_mib"] * MIB),
    ("given_ratio", "gauge", "Given: which part of the card it is to have now.", lambda one: one.get("part")),
    ("used_seconds_total", "counter", "Used: seconds of the card.", lambda one: one.get("used_s")),
    (
        "memory_used_bytes",
        "gauge",
        "Used: memory of the card.",
        lambda one: None if one.get("memory_used_mib") is None else one["memory_used_mib"] * MIB,
    ),
    ("throttled_seconds_total", "counter", "Throttled: seconds frozen.", lambda one: one.get("frozen_s")),
)


def exposition(cards: Sequence[Mapping[str, Any]]) -> str:
    """Return what `named` returned in Prometheus' text format, version 0.0.4; empty without shared cards."""
    lines: list[str] = []
    for name, text, of_card in _OF_CARDS:
        samples = [(_card_labels(card), float(of_card(card))) for card in cards]
        lines += _family(f"mesos_gpu_shared_{name}", "gauge", text, samples)
    for name, kind, text, of_task in _OF_TASKS:
        told = [
            ({**_card_labels(card), **_task_labels(one)}, value)
            for card in cards
            for one in card["containers"]
            if (value := of_task(one)) is not None
        ]
        lines += _family(f"mesos_gpu_share_{name}", kind, text, [(labels, float(value)) for labels, value in told])
    return "\n".join(lines) + "\n" if lines else ""


def _family(name: str, kind: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> list[str]:
    if not samples:
        return []
    head = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    return head + [f"{name}{{{_labels(labels)}}} {value:.15g}" for labels, value in samples]


def _card_labels(card: Mapping[str, Any]) -> dict[str, str]:
    return {"uuid": str(card["uuid"]), "index": str(card["index"])}


def _task_labels(one: Mapping[str, Any]) -> dict[str, str]:
    level = str(one.get("memory_level", ""))
    return {
        "framework": str(one.get("framework_id", "")),
        "task": str(one.get("task_id", "")),
        "container": str(one["container_id"]),
        "memory_level": level,
    }


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
