"""How shared cards are shared now, as operators have said; on disk, and what may be said of it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.agent.gpus.sharing_settings import SharingSettings
from mesos_gpu.base.records import Record
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES, Share


class CardSaid(Struct, frozen=True):
    """What was said of one card; None: as the flags have it."""

    policy: int | None = None
    max_inst: int | None = None
    prio_ratio: int | None = None


class ShareSaid(Struct, frozen=True):
    """What was said of one container; None: as its task has it."""

    weight: int | None = None
    high_priority: bool | None = None


class _Document(msgspec.Struct):
    cards: dict[str, CardSaid] = {}
    containers: dict[ContainerId, ShareSaid] = {}


class ShareRules(Struct):
    """What operators have said, in a file that is written before it counts."""

    path: Path
    settings: SharingSettings
    _said: _Document = field(default_factory=_Document)

    def load(self) -> None:
        """Take up what a process before this one was told. Raises Unavailable for a file that cannot be read."""
        self._said = self._record.load() or _Document()

    def card(self, index: int) -> CardSaid:
        """Return how a card is shared, with no value left out."""
        said, usual = self._said.cards.get(str(index), CardSaid()), self.settings
        return CardSaid(
            usual.policy if said.policy is None else said.policy,
            usual.max_inst if said.max_inst is None else said.max_inst,
            usual.prio_ratio if said.prio_ratio is None else said.prio_ratio,
        )

    def weight(self, container_id: ContainerId, booked: int) -> int:
        """Return the weight that counts."""
        said = self._said.containers.get(container_id, ShareSaid())
        return booked if said.weight is None else said.weight

    def high(self, container_id: ContainerId, share: Share) -> bool:
        """Return whether it has high priority."""
        said = self._said.containers.get(container_id, ShareSaid())
        return share.high_priority if said.high_priority is None else said.high_priority

    def set_card(self, index: int, weights: int, **values: int) -> None:
        """Say how a card is shared. `weights` is the sum of those on it. Raises BadInput, Unavailable."""
        bounds = {"policy": (0, 5), "max_inst": (max(1, weights), MOST_SLICES), "prio_ratio": (20, 99)}
        for name, value in values.items():
            if name not in bounds:
                raise BadInput(f"a shared card has no {name!r}: policy, max_inst or prio_ratio can be set")
            least, most = bounds[name]
            if not least <= value <= most:
                why = f"; weights of {weights} are given" if name == "max_inst" and value < weights else ""
                raise BadInput(f"{name} of card {index} cannot be {value}: {least} to {most}{why}")
        card = replace(self._said.cards.get(str(index), CardSaid()), **values)
        self._save(msgspec.structs.replace(self._said, cards={**self._said.cards, str(index): card}))

    def set_share(self, container_id: ContainerId, said: ShareSaid, free: int, now: int) -> None:
        """Say what a container has; `free` slices of its card are nobody's, and `now` are its own.

        Raises BadInput, Unavailable.
        """
        if said.weight is not None and not 1 <= said.weight <= now + free:
            raise BadInput(
                f"weight of {container_id} cannot be {said.weight}: 1 to {now + free}, of which {free} are free"
            )
        before = self._said.containers.get(container_id, ShareSaid())
        new = ShareSaid(
            before.weight if said.weight is None else said.weight,
            before.high_priority if said.high_priority is None else said.high_priority,
        )
        self._save(msgspec.structs.replace(self._said, containers={**self._said.containers, container_id: new}))

    def keep(self, there: Collection[ContainerId]) -> None:
        """Forget what was said of containers that are not there any more. Raises Unavailable."""
        left = {one: said for one, said in self._said.containers.items() if one in there}
        if len(left) < len(self._said.containers):
            self._save(msgspec.structs.replace(self._said, containers=left))

    def _save(self, said: _Document) -> None:
        self._record.save(said)
        self._said = said

    @property
    def _record(self) -> Record[_Document]:
        what, advice = "how GPUs are shared", "remove the file to share them as the flags say"
        return Record(self.path, _Document, what=what, advice=advice)
