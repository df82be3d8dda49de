"""What the simulated cards do, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mesos_gpu.simulated.division import Divisions, shown
from mesos_gpu.simulated.machine import Machine, Peer


def figures(machine: Machine, now_ns: int, divisions: Divisions | None = None) -> Mapping[str, object]:
    """Return everything as JSON: cards by minor number, and the processes of each."""
    found: dict[str, object] = {}
    divided = {} if divisions is None else divisions.cards
    parts = {part for number in divided for part in (divisions.parts(number) if divisions else ())}
    for number, card in machine.cards.items():
        if number in parts:
            continue
        on = divisions.parts(number) if divisions is not None and number in divided else [number]
        percent = card.percent_by_pid(now_ns)
        found[str(number)] = {
            "total": machine.sizes[number],
            "mig": shown(divided[number]) if number in divided else None,
            "used": sum(machine.used(one) for one in on),
            "busy_percent": card.busy_percent(now_ns),
            "used_s": {owner: used / 1e9 for owner, used in card.used_ns.items() if owner},
            "processes": [
                {
                    "pid": process.peer.pid,
                    "container": process.peer.owner,
                    "bytes": process.used(one),
                    "percent": percent.get(process.peer.pid, 0),
                }
                for one in on
                for process in machine.on_card(one)
            ],
        }
    return {"cards": found, "states": {str(one.peer.pid): int(one.state) for one in machine.processes.values()}}


def by_owner(machine: Machine, number: int) -> dict[str, list[object]]:
    """Return by container: seconds used, whether it has a context on the card, whether it waits."""
    card = machine.cards[number]
    present = {process.peer.owner for process in machine.on_card(number)}
    waiting = card.waiting()
    return {
        owner: [card.used_ns.get(owner, 0) / 1e9, owner in present, owner in waiting]
        for owner in {*card.used_ns, *present}
        if owner
    }


def memory_by_owner(machine: Machine, number: int) -> dict[str, int]:
    """Return MiB of a card by container."""
    found: dict[str, int] = {}
    for process in machine.on_card(number):
        if process.peer.owner and (used := process.used(number)):
            found[process.peer.owner] = found.get(process.peer.owner, 0) + used
    return {owner: -(-used >> 20) for owner, used in found.items()}


def seen_as(asker: Peer, other: Peer) -> int | None:
    """Return the number of a process as another sees it: in its PID namespace, or, from outside of containers, all."""
    if not asker.owner:
        return other.pid
    return other.inner if asker.namespace == other.namespace and asker.owner == other.owner else None
