"""What masters and agents say of shared cards, beside what containers truly use of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from mesos_gpu.isolator import record_folder
from tests.sim.cards import amounts
from tests.sim.http import request

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.services import Cluster

LIVE = frozenset(("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"))
NAMES = ("gpu_mem", "gpu_slices")
PER_CARD = 1000
Amounts = dict[int, tuple[int, int]]


def units(resources: Any, name: str) -> list[int]:
    """Return the numbers of all units of a name in what a state says of resources."""
    pairs = re.findall(r"(\d+)-(\d+)", str(resources.get(name, "")))
    return [number for first, last in pairs for number in range(int(first), int(last) + 1)]


def counted(resources: Any) -> Amounts:
    """Return how many GiB and slices resources are of each card."""
    found: Amounts = {}
    for place, name in enumerate(NAMES):
        for number in units(resources, name):
            pair = list(found.get(number // PER_CARD, (0, 0)))
            pair[place] += 1
            found[number // PER_CARD] = pair[0], pair[1]
    return found


def without(amounts_: Amounts, others: Amounts) -> Amounts:
    """Return amounts without others; cards of which nothing is left are not there."""
    left = {
        card: (gib - others.get(card, (0, 0))[0], slices - others.get(card, (0, 0))[1])
        for card, (gib, slices) in amounts_.items()
    }
    return {card: pair for card, pair in left.items() if pair != (0, 0)}


def of_master(state: Any, machines: dict[str, Machine], untold: Collection[str] = ()) -> Iterator[str]:
    """Tell where a master's books of shared cards are not what containers began with.

    `untold`: tasks that have ended, of which it may not have heard yet: what they had may be counted, or not.
    """
    names = {agent["id"]: agent["hostname"] for agent in state["slaves"]}
    ended = [task for one in state["frameworks"] for task in one["tasks"] if task["id"] in untold]
    for agent in state["slaves"]:
        machine = machines.get(agent["hostname"])
        if machine is None or not machine.cards:
            continue
        taken = amounts(part for container in machine.running.values() for part in container.booked)
        says = counted(agent["used_resources"])
        for task in ended:
            if task["slave_id"] == agent["id"] and task["state"] in LIVE:
                says = without(says, counted(task["resources"]))
        if says != taken:
            yield f"a master counts {says} (GiB, slices by card) of {agent['hostname']}; taken: {taken}"
        # What is counted for one that is suspended is somebody else's to have, under other numbers.
        uses = amounts(part for container in machine.running.values() for part in container.parts)
        there = counted(agent["resources"])
        for number, card in machine.cards.items():
            has, used = says.get(number, (0, 0)), uses.get(number, (0, 0))
            wanted = has[0] + card.gib - used[0], has[1] + card.slices - used[1]
            if number not in machine.doubted and there.get(number) != wanted:
                what = f"{there.get(number)} (GiB, slices) of card {number} of {agent['hostname']}"
                yield f"a master has {what}, and there are {wanted}, {has} of them used"
    running = {task for machine in machines.values() for task in machine.tasks()}
    owners: dict[tuple[str, str, int], str] = {}
    for framework in state["frameworks"]:
        # One whose end is not acknowledged is known for longer than it has anything.
        for task in (task for task in framework["tasks"] if task["id"] in running):
            for name in NAMES:
                for number in units(task["resources"], name):
                    place = names.get(task["slave_id"], task["slave_id"]), name, number
                    other = owners.setdefault(place, task["id"])
                    if other != task["id"]:
                        yield f"a master gives {name} {number} of {place[0]} to {other} and {task['id']}"


def of_tasks(state: Any, machines: dict[str, Machine]) -> Iterator[str]:
    """Tell which tasks run with other parts of cards than a master counts for them; not those of an executor."""
    known = {task["id"]: counted(task["resources"]) for one in state["frameworks"] for task in one["tasks"]}
    for name, machine in machines.items():
        for container_id, container in machine.running.items():
            alone = container.executor is None and "." not in container_id
            if alone and machine.cards and container.task in known:
                booked = amounts(container.booked)
                if known[container.task] != booked:
                    yield f"a master counts {known[container.task]} for {container.task} on {name}; it has {booked}"


async def of_agents(cluster: Cluster) -> list[str]:
    """Return where agents show other parts of cards than their containers can use."""
    found = []
    for name, machine in cluster.machines.items():
        if not machine.cards:
            continue
        try:
            answer = await request(f"{machine.host.ip}:5051", "GET", "/gpu_shares")
        except (OSError, asyncio.TimeoutError) as error:
            found.append(f"{name} does not say who shares its cards: {error!r}")
            continue
        shown = {card["index"]: card for card in answer.json()}
        if set(shown) != set(machine.cards):
            found.append(f"{name} says that it shares the cards {sorted(shown)}, not {sorted(machine.cards)}")
        for number, card in shown.items():
            says = {one["container_id"]: (one["mem_units"], one["weight"]) for one in card["containers"]}
            uses = {}
            for container_id, container in machine.running.items():
                if number in amounts(container.parts):
                    gib, weight = amounts(container.parts)[number][0], machine.weight_of(container_id)
                    known = says.get(str(container_id), (0, 0))[1] if weight is None else weight
                    uses[str(container_id)] = gib, known
            if says != uses:
                found.append(f"{name} says that card {number} is used by {says}; it is by {uses}")
            away = {str(one) for one, container in machine.running.items() if container.booked and not container.parts}
            for one in card["suspended"]:
                if one["container_id"] not in away:
                    found.append(f"{name} says that {json.dumps(one)} is suspended, and it is not")
        for container_id, container in machine.running.items():
            if container.away != (bool(container.booked) and not container.parts) and not container.gpus:
                state = "is put away" if container.away else "runs"
                found.append(f"{container.task} in {container_id} on {name} {state}, and has {container.parts}")
    return found


def left_behind(cluster: Cluster) -> Iterator[str]:
    """Tell what agents keep of containers that are gone: records of shares, tables, what was said of them."""
    for name, machine in cluster.machines.items():
        folder, running = machine.host.disk.volatile, {str(one) for one in machine.running}
        if not machine.cards:
            continue
        for kept in ("shares", "share_tables"):
            there = sorted((folder / kept).glob("*")) if (folder / kept).is_dir() else []
            for path in there:
                if path.stem not in running and path.name != record_folder.LOCK:
                    yield f"{path.name} is left in {kept} of {name}"
        for path, key in ((folder / "turns" / "rules.json", "containers"), (folder / "suspended.json", None)):
            entries = json.loads(path.read_bytes()) if path.exists() else {}
            for one in (entries if key is None else entries[key]) if entries else ():
                if one not in running:
                    yield f"{one} is left in {path.name} of {name}"
