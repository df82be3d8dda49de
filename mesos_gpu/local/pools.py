"""Pools of a box: agents that are alike, under a name, as the node pools of GKE. Pure.

Source of the words: `gcloud container node-pools create|resize|delete|list`. Pools are written as GKE's command line
writes accelerators, keys with values between commas: `name=t4,agents=2,gpus=4,model=Tesla-T4,memory=15109MiB`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mesos_gpu.errors import BadFlag, BadInput, Conflict, NotFound
from mesos_gpu.gpu.make import MAX_GPUS, Make
from mesos_gpu.gpu.wirings import PAIRS

DEFAULT = "default"
"""The pool of a box that was told of none."""
ATTRIBUTE = "pool"
"""The attribute of agents that names their pool, for constraints: `pool:IS:t4`."""
KEYS = ("name", "agents", "gpus", "model", "memory", "driver", "topology")
MAX_AGENTS = 64
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_SIZE = re.compile(r"(\d+)\s*(MiB|MB|GiB|GB|)")
_KEY_OF = {
    "simulated_gpu_model": "model",
    "simulated_gpu_memory": "memory",
    "simulated_gpu_driver_version": "driver",
    "simulated_gpu_topology": "topology",
}
_MIB = {"MiB": 1, "MB": 1, "": 1, "GiB": 1024, "GB": 1024}


@dataclass(frozen=True, slots=True)
class Pool:
    """What each agent of a pool has: so many GPUs, and, where they are simulated, what these say of themselves."""

    name: str
    gpus: int
    make: Make | None = None

    @property
    def attributes(self) -> str:
        """Return what its agents say of themselves beside their GPUs."""
        return f"{ATTRIBUTE}:{self.name}"


@dataclass(frozen=True, slots=True)
class Wish:
    """A pool, and how many agents it is to have."""

    pool: Pool
    agents: int


@dataclass(frozen=True, slots=True)
class Seat:
    """One agent of a box: its number, which names its folder, its pool, and the real GPUs that are its own."""

    number: int
    pool: str
    devices: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return what the agent is called among the services of its box."""
        return f"agent{self.number}"


def read_pool(text: str) -> Wish:
    """Return the pool that `name=NAME,agents=N,gpus=N,model=MODEL,memory=15109MiB,driver=VERSION,topology=dgx-1`
    describes.

    Raises BadInput with every mistake there is.
    """
    said: dict[str, str] = {}
    wrong = []
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in KEYS or not equals or not value:
            near = difflib.get_close_matches(key, KEYS, 1)
            meant = f"; did you mean {near[0]}=...?" if near else f"; known are {', '.join(KEYS)}"
            wrong.append(f"{part.strip()!r} is not KEY=VALUE{meant}")
        elif key in said:
            wrong.append(f"{key} is said twice")
        said[key] = value
    name = said.get("name", "")
    if not _NAME.fullmatch(name):
        wrong.append(
            "it needs a name: name=t4"
            if not name
            else f"name: {name!r} must be small letters, digits and dashes, 40 at most, with a letter first"
        )
    agents = _count(said.get("agents", "1"), "agents", MAX_AGENTS, wrong)
    gpus = _count(said.get("gpus", "4"), "gpus", MAX_GPUS, wrong)
    make = _make(said, gpus, wrong)
    if wrong:
        raise BadInput(f"--pool {text}: {'; '.join(wrong)}")
    return Wish(Pool(name, gpus, make), agents)


def read_pools(texts: Sequence[str]) -> list[Wish]:
    """Return the pools of several texts. Raises BadInput for a mistake, a name that comes twice, or no agent at all."""
    wishes = [read_pool(text) for text in texts]
    names = [wish.pool.name for wish in wishes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"--pool: {', '.join(twice)} comes twice")
    if wishes and not any(wish.agents for wish in wishes):
        raise BadInput("--pool: a box needs at least 1 agent")
    return wishes


@dataclass(frozen=True, slots=True)
class Layout:
    """The agents of a box, by pool. `cards`: indices of this machine's GPUs; None where GPUs are simulated."""

    pools: tuple[Pool, ...] = ()
    seats: tuple[Seat, ...] = ()
    cards: tuple[int, ...] | None = None

    def pool(self, name: str) -> Pool:
        """Return the pool of a name. Raises NotFound."""
        found = next((pool for pool in self.pools if pool.name == name), None)
        if found is None:
            names = ", ".join(pool.name for pool in self.pools) or "none"
            raise NotFound(f"there is no pool {name!r}; there are: {names}")
        return found

    def of(self, name: str) -> list[Seat]:
        """Return the agents of a pool, by number."""
        return sorted((seat for seat in self.seats if seat.pool == name), key=lambda seat: seat.number)

    def create(self, wish: Wish, taken: Collection[int] = ()) -> Layout:
        """Return it with one more pool. `taken`: numbers of agents that may not be given. Raises Conflict, BadInput."""
        if any(pool.name == wish.pool.name for pool in self.pools):
            raise Conflict(f"there is a pool {wish.pool.name!r} already; `mesos-gpu pool resize` changes its size")
        if self.cards is not None and wish.pool.make is not None:
            raise BadInput(
                f"pool {wish.pool.name}: model, memory, driver and topology are those of simulated GPUs; these are real"
            )
        return replace(self, pools=(*self.pools, wish.pool)).grow(wish.pool.name, wish.agents, taken)

    def grow(self, name: str, count: int, taken: Collection[int] = ()) -> Layout:
        """Return it with so many more agents in a pool. Raises NotFound, BadInput when the machine's GPUs are short."""
        pool, seats = self.pool(name), self.seats
        if len(self.of(name)) + count > MAX_AGENTS:
            raise BadInput(f"pool {name}: {len(self.of(name)) + count} agents are more than {MAX_AGENTS}")
        for _ in range(count):
            used = {seat.number for seat in seats} | set(taken)
            number = next(n for n in range(1, len(used) + 2) if n not in used)
            seats = (*seats, Seat(number, name, self._cards_for(pool, seats)))
        return replace(self, seats=tuple(sorted(seats, key=lambda seat: seat.number)))

    def without(self, numbers: Collection[int]) -> Layout:
        """Return it without these agents; a pool with none left stays."""
        return replace(self, seats=tuple(seat for seat in self.seats if seat.number not in numbers))

    def delete(self, name: str) -> Layout:
        """Return it without a pool and its agents. Raises NotFound, BadInput for the last agents of the box."""
        self.pool(name)
        left = self.without([seat.number for seat in self.of(name)])
        if not left.seats:
            raise BadInput(f"pool {name} has the last agents of the box; `mesos-gpu down` ends the box")
        return replace(left, pools=tuple(pool for pool in self.pools if pool.name != name))

    def _cards_for(self, pool: Pool, seats: Sequence[Seat]) -> tuple[int, ...]:
        if self.cards is None:
            return ()
        held = {card for seat in seats for card in seat.devices}
        free = [card for card in self.cards if card not in held]
        if len(free) < pool.gpus:
            raise BadInput(
                f"pool {pool.name}: an agent of it has {pool.gpus} GPUs, and {len(free)} of this machine's "
                f"{len(self.cards)} are left; simulated ones are as many as you like (--gpu_driver=simulated)"
            )
        return tuple(free[: pool.gpus])


def default_layout(agents: int, gpus: int, cards: Sequence[int] | None) -> Layout:
    """Return the layout of a box that was told of no pools; real GPUs are dealt out so that none is offered twice."""
    seats = [
        Seat(n + 1, DEFAULT, () if cards is None else tuple(cards[n::agents] if agents > 1 else cards))
        for n in range(agents)
    ]
    each = gpus if cards is None else max(len(seat.devices) for seat in seats)
    return Layout((Pool(DEFAULT, each),), tuple(seats), None if cards is None else tuple(cards))


def layout_of(
    wishes: Sequence[Wish], before: Layout, cards: Sequence[int] | None, taken: Collection[int] = ()
) -> Layout:
    """Return the layout of these pools; agents of one that is as it was before keep their numbers, so their tasks.

    An agent that comes back as another would be refused by its own checkpoints: a changed pool has new numbers, none
    of those `taken`. Raises BadInput when the machine's GPUs are short.
    """
    found = Layout(cards=None if cards is None else tuple(cards))
    as_before = (before.cards is None) == (cards is None)
    same = {wish.pool.name: wish for wish in wishes if as_before and wish.pool in before.pools}
    for name, wish in same.items():
        found = replace(found, pools=(*found.pools, wish.pool), seats=(*found.seats, *before.of(name)[: wish.agents]))
    # Cards that have gone from the machine are no agent's.
    found = replace(found, seats=tuple(seat for seat in found.seats if not set(seat.devices) - set(cards or ())))
    taken = {*taken, *(seat.number for seat in before.seats)}
    for wish in wishes:
        if wish.pool.name in same:
            found = found.grow(wish.pool.name, wish.agents - len(found.of(wish.pool.name)), taken)
        else:
            found = found.create(wish, taken)
    order = {wish.pool.name: at for at, wish in enumerate(wishes)}
    return replace(found, pools=tuple(sorted(found.pools, key=lambda pool: order[pool.name])))


def leaving(seats: Sequence[Seat], keep: int, tasks: Mapping[int, int]) -> list[Seat]:
    """Return which agents of a pool go so that `keep` are left: those with the fewest tasks, of these the newest.

    `tasks`: how many tasks each agent has, by number.
    """
    order = sorted(seats, key=lambda seat: (tasks.get(seat.number, 0), -seat.number))
    return order[: max(0, len(seats) - keep)]


def document_of(layout: Layout) -> dict[str, Any]:
    """Return a layout as its file has it."""
    return {
        "pools": [
            {"name": pool.name, "gpus": pool.gpus, **({} if pool.make is None else _make_document(pool.make))}
            for pool in layout.pools
        ],
        "agents": [{"number": seat.number, "pool": seat.pool, "devices": list(seat.devices)} for seat in layout.seats],
        "cards": None if layout.cards is None else list(layout.cards),
    }


def read_layout(document: Any) -> Layout:
    """Return the layout that a file has. Raises ValueError for what `document_of` never writes."""
    try:
        pools = tuple(Pool(str(one["name"]), int(one["gpus"]), _read_make(one)) for one in document["pools"])
        seats = tuple(
            Seat(int(one["number"]), str(one["pool"]), tuple(map(int, one["devices"]))) for one in document["agents"]
        )
        cards = document["cards"]
        layout = Layout(pools, seats, None if cards is None else tuple(map(int, cards)))
        for seat in seats:
            layout.pool(seat.pool)
    except (LookupError, TypeError, AttributeError, BadFlag, NotFound) as error:
        raise ValueError(f"it describes no pools: {error}") from None
    return layout


def _make_document(make: Make) -> dict[str, Any]:
    said = {"model": make.model, "memory_mib": make.memory_mib, "driver": make.driver_version}
    return said if make.topology == PAIRS else {**said, "topology": make.topology}


def _read_make(one: Mapping[str, Any]) -> Make | None:
    if "model" not in one:
        return None
    return Make(one["model"], one["memory_mib"], one["driver"], one.get("topology", PAIRS)).checked(int(one["gpus"]))


def _count(text: str, key: str, most: int, wrong: list[str]) -> int:
    if not re.fullmatch(r"\d{1,4}", text) or int(text) > most:
        wrong.append(f"{key}: {text!r} is not a whole number of 0 to {most}")
        return 0
    return int(text)


def _make(said: Mapping[str, str], gpus: int, wrong: list[str]) -> Make | None:
    """Return what simulated GPUs are to say of themselves; None where nothing is said."""
    if not {"model", "memory", "driver", "topology"} & set(said):
        return None
    usual = Make()
    memory_mib = usual.memory_mib
    if "memory" in said:
        size = _SIZE.fullmatch(said["memory"])
        if size is None:
            wrong.append(f"memory: {said['memory']!r} is not a size such as 15109MiB or 16GiB")
        else:
            memory_mib = int(size[1]) * _MIB[size[2]]
    try:
        driver, topology = said.get("driver", usual.driver_version), said.get("topology", usual.topology)
        return Make(said.get("model", usual.model), memory_mib, driver, topology).checked(gpus)
    except BadFlag as error:
        wrong.append(f"{_KEY_OF[error.flag]}: {error.problem}")
        return None
