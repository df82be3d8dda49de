"""The agent's side of turns on shared cards: the programs that give and meter them, and who is to have which part."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu import sharing
from mesos_gpu.agent.gpus.share_rules import CardSaid, ShareRules, ShareSaid
from mesos_gpu.base.child import Child
from mesos_gpu.errors import BadInput, NotFound, Unavailable
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId, top_level
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.shares.gpu_shares import level_of
from mesos_gpu.sharing.freezer import FROZEN, FrozenRecord

log = logging.getLogger(__name__)

PROGRAM = str(Path(sharing.__file__).parent / "__main__.py")
ANSWER_S = 1.0
"""How long the turner may take to do as it is told."""
LONGEST_HOLD_S = 1.0
"""How long a container is not frozen because something is run in it; that continues in turns then."""
AGAIN_S = 0.2
SILENCE_S = 1.5
"""A turner that has said nothing for so long hangs: it tells figures twice a second."""
_MOST_SOCKET_PATH = 100


class Turns:
    """Has the containers of shared cards take turns. Lives in one event loop; without shared cards it does nothing.

    `freeze_file` finds the file that freezes a container. With `simulated`, cards count themselves.
    """

    def __init__(
        self,
        isolator: SharingIsolator,
        rules: ShareRules,
        folder: Path,
        *,
        simulated: bool,
        freeze_file: Callable[[ContainerId], Path | None],
    ) -> None:
        self._isolator, self.rules, self._folder = isolator, rules, folder
        self._simulated, self._freeze_file = simulated, freeze_file
        self._running: set[ContainerId] = set()
        self._held: dict[ContainerId, int] = {}
        self._turner: Child | None = None
        self._number = 0
        self._done: dict[int, asyncio.Future[None]] = {}
        self._figures: dict[str, Any] = {}
        self._memory_used: Mapping[tuple[str, int], int] = {}
        """MiB that containers had of cards, by the card's index, when that was last looked at."""

    def sockets(self) -> Mapping[int, Path]:
        """Return where simulated cards answer, by index."""
        return card_sockets(self._folder, self._isolator.cards) if self._simulated else {}

    async def start(self) -> None:
        """Start the programs; whatever a process before this one left frozen is thawed on return."""
        if not self._isolator.cards:
            return
        self.rules.load()
        self._turner = Child(
            "the program that gives turns on shared GPUs",
            self._start_turner,
            self._hear,
            again_s=AGAIN_S,
            silence_s=SILENCE_S,
            on_silence=self._thaw_all,
            on_end=self._thaw_all,  # its watchdog does so, too, unless both were killed
            on_start=self._write,
        )
        await self._turner.start(first_line_s=ANSWER_S)  # its first line: what was frozen is thawed

    async def close(self) -> None:
        """End the programs; everybody is thawed."""
        if self._turner is not None:
            await self._turner.close()

    async def add(self, container_ids: Iterable[ContainerId]) -> None:
        """Tell that these containers run now."""
        new = {one for one in container_ids if one in self._isolator.shares}
        if new - self._running:
            self._running |= new
            await self.tell()

    async def remove(self, container_id: ContainerId) -> None:
        """Tell that a container is gone; its end is told also where what was said of it cannot be forgotten yet."""
        self._held.pop(container_id, None)
        try:
            # Others may have ended while the disk was full, or before this process began.
            self.rules.keep(self._isolator.shares.keys() - {container_id})
        except Unavailable as error:
            log.warning("what was said of container %s is not forgotten yet: %s", container_id, error)
        if container_id in self._running:
            self._running.discard(container_id)
            await self.tell()

    async def thaw(self, container_id: ContainerId) -> None:
        """Freeze the container, or the one it is nested in, no more: it is ending."""
        one = top_level(container_id)
        if one in self._running:
            self._held[one] = self._held.get(one, 0) + 1
            await self.tell()

    @asynccontextmanager
    async def entered(self, container_id: ContainerId) -> AsyncIterator[None]:
        """Do not freeze the container while something is begun in it, for a second at most."""
        one = top_level(container_id)
        if one not in self._running:
            yield
            return
        await self.thaw(one)
        let_go = asyncio.get_running_loop().call_later(LONGEST_HOLD_S, self._let_go, one)
        try:
            yield
        finally:
            if not let_go.cancelled() and let_go.when() > asyncio.get_running_loop().time():
                let_go.cancel()
                self._let_go(one)

    @asynccontextmanager
    async def unfrozen(self, container_id: ContainerId) -> AsyncIterator[None]:
        """Do not freeze the container meanwhile, however long it takes: the driver asks its processes for something."""
        one = top_level(container_id)
        self._held[one] = self._held.get(one, 0) + 1
        await self.tell()
        try:
            yield
        finally:
            self._let_go(one)

    async def set_card(self, index: int, values: Mapping[str, int]) -> None:
        """Share a card otherwise from now on. Raises NotFound, BadInput, Unavailable."""
        if index not in self._isolator.cards:
            raise NotFound(f"card {index} is not shared on this agent")
        weights = sum(weight for _, weight in self._weights(index))
        self.rules.set_card(index, weights, **values)
        await self.tell()

    async def set_share(self, container_id: ContainerId, said: ShareSaid) -> None:
        """Give a container another weight, or priority, on all of its cards. Raises NotFound, BadInput, Unavailable."""
        share = self._isolator.shares.get(container_id)
        if share is None:
            raise NotFound(f"container {container_id} shares no GPU here")
        if not share.parts:
            raise BadInput(f"container {container_id} is suspended: it has no part of a GPU until it is resumed")
        booked = max(part.weight for part in share.parts)
        free = min(
            (self.rules.card(part.card).max_inst or 0) - sum(weight for _, weight in self._weights(part.card))
            for part in share.parts
        )
        self.rules.set_share(container_id, said, max(0, free), self.rules.weight(container_id, booked))
        await self.tell()

    def take_memory(self, used: Mapping[tuple[str, int], int]) -> None:
        """Take note of what containers have of cards' memory."""
        self._memory_used = used

    def shown(self) -> list[Document]:
        """Return the shared cards, and who shares them, as /gpu_shares shows them."""
        figures = {one: told for ring in self._figures.values() for one, told in ring["members"].items()}
        cards = []
        for index, card in sorted(self._isolator.cards.items()):
            said, weights = self.rules.card(index), dict(self._weights(index))
            cards.append(
                {
                    "index": index,
                    "uuid": card.uuid,
                    "memory_mib": card.memory_mib,
                    "mem_units": card.mem_units,
                    "memory_level": card.level.word,
                    **_card_shown(said),
                    "free_weight": max(0, (said.max_inst or 0) - sum(weights.values())),
                    "containers": [
                        {
                            "container_id": one,
                            "weight": weights[one],
                            "high_priority": self.rules.high(one, share),
                            "mem_units": part.mem_units,
                            "memory_mib": card.memory_of(part.mem_units),
                            "memory_level": level_of(share.parts, self._isolator.cards).word,
                            **_known(memory_used_mib=self._memory_used.get((one, index))),
                            **figures.get(one, {}),
                        }
                        for one, share in sorted(self._isolator.shares.items())
                        for part in share.parts
                        if part.card == index
                    ],
                    "suspended": [
                        {"container_id": one, "weight": part.weight, "mem_units": part.mem_units}
                        for one, share in sorted(self._isolator.shares.items())
                        for part in ([] if share.parts else share.booked)
                        if part.card == index
                    ],
                }
            )
        return cards

    def _weights(self, index: int) -> list[tuple[ContainerId, int]]:
        return [
            (one, self.rules.weight(one, part.weight))
            for one, share in self._isolator.shares.items()
            for part in share.parts
            if part.card == index
        ]

    def _let_go(self, container_id: ContainerId) -> None:
        if self._held.get(container_id, 0) > 1:
            self._held[container_id] -= 1
        else:
            self._held.pop(container_id, None)
        self._write()

    def _rings(self) -> dict[str, Document]:
        """Return what the turner is told: a ring for each card, one for several where a container has parts of them."""
        rings: dict[str, Document] = {}
        sockets = self.sockets()
        here = self._isolator.cards.keys()  # a card may have vanished while the agent was away
        used = [{part.card for part in share.parts} & here for share in self._isolator.shares.values()]
        for cards in _connected(filter(None, used)):
            said = self.rules.card(cards[0])
            members = []
            for one, share in sorted(self._isolator.shares.items()):
                file = self._freeze_file(one)
                mine = [part for part in share.parts if part.card in cards]
                if one in self._running and mine and file is not None:
                    nested = file.parent / "mesos" / file.name
                    members.append(
                        {
                            "id": one,
                            "weight": self.rules.weight(one, max(part.weight for part in mine)),
                            "high": self.rules.high(one, share),
                            "held": one in self._held,
                            "file": str(nested if share.group else file),
                        }
                    )
            rings[",".join(map(str, cards))] = {
                "rules": {**_card_shown(said), "slice_s": self.rules.settings.slice_s},
                "members": members,
                "meters": [
                    {"kind": "simulated", "socket": str(sockets[card])}
                    if card in sockets
                    else {"kind": "clock", "minor": self._isolator.minor(card)}
                    for card in cards
                ],
            }
        return rings

    def _write(self) -> int | None:
        """Tell the turner what is to be; return the number of the message, None while there is none to tell."""
        if self._turner is None:
            return None
        self._number += 1
        message = msgspec.json.encode({"number": self._number, "rings": self._rings()})
        return self._number if self._turner.send(message) else None

    async def tell(self) -> None:
        """Tell the turner what is to be, and wait until it is so."""
        number = self._write()
        if number is None:
            return
        done = self._done[number] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(done, ANSWER_S)
        except (asyncio.TimeoutError, TimeoutError):
            log.warning("the program that gives turns on shared GPUs does not answer")
        finally:
            self._done.pop(number, None)

    def _start_turner(self, stdin: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-S", PROGRAM, "turner", str(self._folder)], stdin=stdin.fileno(), start_new_session=True
        )

    async def _hear(self, line: bytes) -> None:
        """Take up what the turner says."""
        told = msgspec.json.decode(line)
        self._figures = told.get("figures", self._figures)
        done = self._done.get(told.get("done", 0))
        if done is not None and not done.done():
            done.set_result(None)

    def _thaw_all(self) -> None:
        FrozenRecord(self._folder / FROZEN).thaw_all()


def _known(**values: int | None) -> Document:
    return {name: value for name, value in values.items() if value is not None}


def card_sockets(folder: Path, cards: Iterable[int]) -> Mapping[int, Path]:
    """Return where simulated cards answer, by index; none where paths are too long for tasks to use them."""
    found = {index: folder / "cards" / f"{index}.sock" for index in cards}
    fits = all(len(os.fsencode(path)) <= _MOST_SOCKET_PATH for path in found.values())
    return found if fits else {}


def _card_shown(said: CardSaid) -> Document:
    return {"policy": said.policy, "max_inst": said.max_inst, "prio_ratio": said.prio_ratio}


def _connected(sets: Iterable[Iterable[int]]) -> list[list[int]]:
    """Return cards that a container, or a chain of them, connects, together."""
    groups: list[set[int]] = []
    for each in sets:
        cards = set(each)
        for group in [group for group in groups if group & cards]:
            groups.remove(group)
            cards |= group
        groups.append(cards)
    return sorted(sorted(group) for group in groups)


def said_of(document: Mapping[str, Any]) -> tuple[int | None, ContainerId | None, dict[str, int], ShareSaid]:
    """Return what `POST /gpu_shares` says: card or container, and values. Raises BadInput naming what is wrong."""
    card, container = document.get("card"), document.get("container_id")
    values = {name: value for name, value in document.items() if name not in ("card", "container_id")}
    if (card is None) == (container is None):
        raise BadInput("say of which `card` (its index) or of which `container_id`, one of them")
    if card is not None:
        if not values or any(
            isinstance(value, bool) or not isinstance(value, int) for value in (card, *values.values())
        ):
            raise BadInput("a card has policy, max_inst and prio_ratio: whole numbers")
        return int(card), None, values, ShareSaid()
    weight, high = values.pop("weight", None), values.pop("high_priority", None)
    if values or (weight is None and high is None):
        raise BadInput("a container has `weight` and `high_priority`")
    if (weight is not None and (isinstance(weight, bool) or not isinstance(weight, int))) or not isinstance(
        high, bool | None
    ):
        raise BadInput("`weight` is a whole number, `high_priority` true or false")
    return None, ContainerId(str(container)), {}, ShareSaid(weight, high)
