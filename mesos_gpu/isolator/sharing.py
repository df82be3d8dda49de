"""Cards that several containers open at once, beside those that each has for itself."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import gpu_nodes, rule_for
from mesos_gpu.isolator.arguments import (
    container_id_of,
    container_ids_of,
    gpu_count_of,
    gpus_of,
    parts_of,
    share_of,
)
from mesos_gpu.isolator.injection import NO_LABELS, VISIBLE_DEVICES, ImageManifest
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.ledger import AllocateShare, ReadShares, Release, container, handle
from mesos_gpu.isolator.plan import BindMount, Change, DeviceRule, LaunchPlan
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.serial import serial
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.share_tables import ShareTables
from mesos_gpu.isolator.volume import CONTAINER_PATH
from mesos_gpu.mesos.ids import ContainerId, is_nested, top_level
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard

log = logging.getLogger(__name__)

SIMULATED_CARDS = "MESOS_GPU_SIMULATED_CARDS"


class MemoryKeeper(Protocol):
    """Keeps containers to their part of the memory of their cards."""

    def limit(self, container_id: ContainerId, share: Share) -> None:
        """Have the driver keep a container to its parts, before it has a process. Raises MesosGpuError."""

    def plan(self, share: Share) -> LaunchPlan:
        """Return what a container must be given to be kept to its parts."""


class SharingIsolator:
    """An isolator of whole GPUs, with `gpus` beside them that are shared, each offered as one of `cards`.

    A container with a share has no GPU of its own. A nested one sees what its outermost parent does. Who may use a
    card, and when, is not decided here: all of its containers can open it.

    As in NvidiaGpuIsolator, shares on record are held from the constructor on, and the folder of `records` is locked
    until `close`. Thread-safe: one call to this isolator or to `whole` runs at a time. Raises Conflict, Unavailable.
    """

    def __init__(
        self, whole: NvidiaGpuIsolator, gpus: Iterable[Gpu], cards: Iterable[SharedCard], records: ShareRecords
    ) -> None:
        self._whole, self._records, self.access = whole, records, whole.access
        self._gpus = {gpu.index: gpu for gpu in gpus_of(gpus)}
        self.cards: Mapping[int, SharedCard] = {card.index: card for card in cards}
        whole.live_ledger.share(self._gpus, self.cards)
        records.claim(self)
        try:
            self._shares = self._recorded()
            whole.tell(ReadShares(dict(self._shares)))
        except BaseException:
            records.close()
            raise
        self._over: set[ContainerId] = set()
        """Containers that have ended and hold what they had all the same: a record could not be removed."""
        self._unwritten: set[ContainerId] = set()
        """Containers whose record could not be written and may differ from their share."""
        self.sockets: Mapping[int, Path] = {}
        """Where simulated cards answer; containers are told, and those with a root of their own see them there."""
        self.keeper: MemoryKeeper | None = None
        """Who keeps containers to their memory; None: nobody."""
        self.tables: ShareTables | None = None
        """What programs that list simulated GPUs read in a container; None: the cards are real, or nobody asks."""

    def close(self) -> None:
        """Unlock the folders of the records and close `whole`; further calls raise Conflict."""
        self._whole.close()
        self._records.close()

    def __enter__(self) -> SharingIsolator:
        """Return this isolator; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def gpus(self) -> Collection[Gpu]:
        """Return the cards that are shared, as the driver lists them."""
        return self._gpus.values()

    @property
    def closed(self) -> Collection[int]:
        """Return the shared GPUs of which no part is given because they are withdrawn, by index."""
        withdrawn = self._whole.ledger.withdrawn
        return frozenset(index for index, gpu in self._gpus.items() if gpu.uuid in withdrawn)

    @property
    @serial
    def shares(self) -> Mapping[ContainerId, Share]:
        """Return what each container shares; a copy."""
        return dict(self._shares)

    def minor(self, card: int) -> int:
        """Return the device number of a shared card. Raises NotFound."""
        gpu = self._gpus.get(card) if isinstance(card, int) else None
        if gpu is None:
            raise NotFound(f"GPU {card} is not shared here: {', '.join(map(str, self._gpus)) or 'none is'}")
        return gpu.minor

    @serial
    def recover(self, live: Collection[str]) -> frozenset[ContainerId]:
        """Return the containers that are on record and not in `live`; see NvidiaGpuIsolator. Raises BadInput."""
        names = container_ids_of(live)
        return self._whole.recover(names) | (self._shares.keys() - names)

    @serial
    def prepare(
        self,
        container_id: str,
        gpus: float,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
        share: Share | None = None,
    ) -> LaunchPlan:
        """Take whole GPUs, or a part of shared ones; return what the container must be given.

        Raises what NvidiaGpuIsolator.prepare raises; BadInput for both kinds at once and for a card that is not
        shared, NotEnoughGpus when others have what was asked for, Conflict for a container that has a share.
        """
        name = container_id_of(container_id)
        if is_nested(name):
            plan = self._whole.prepare(name, gpus, image=image, labels=labels)
            parent = top_level(name)
            return self._with_cards(plan, parent, self._shares.get(parent), host_files=image is False)
        self._clean_up_again()
        if name in self._shares or (share is not None and container(name) in self._whole.ledger.holdings):
            raise Conflict(
                f"container {name} has already been prepared, by this process or by the one before it; clean it up "
                "once it has ended, or choose another id"
            )
        if share is None:
            return self._whole.prepare(name, gpus, image=image, labels=labels)
        share = share_of(share)
        self._check(name, gpu_count_of(name, gpus), share)
        plan = self._whole.prepare(name, 0, image=image, labels=labels)
        try:
            self._record(name, share)
            if self.keeper is not None:
                self.keeper.limit(name, share)
            plan = self._with_cards(plan, name, share, host_files=image is False)
        except BaseException:
            self._undo_prepare(name, share)
            raise
        self._put(name, share)
        return plan

    def _undo_prepare(self, container_id: ContainerId, share: Share) -> None:
        """Remove what may have been written; if that fails, the container keeps its share until it can be removed."""
        try:
            self._forget(container_id)
        except (MesosGpuError, OSError) as error:
            log.error("the record of container %s could not be removed, so it keeps its share: %s", container_id, error)
            self._put(container_id, share)
            self._over.add(container_id)

    def isolate(self, container_id: str, pid: int, rules: Sequence[DeviceRule] = ()) -> None:
        """Tell that the container runs: see NvidiaGpuIsolator."""
        self._whole.isolate(container_id, pid, rules)

    @serial
    def update(self, container_id: str, gpus: float, release: Collection[Gpu] | None = None) -> Change:
        """Change the number of whole GPUs. Raises what NvidiaGpuIsolator raises, BadInput for who has a share."""
        name = container_id_of(container_id)
        if name in self._shares:
            raise BadInput(f"container {name} shares GPUs and cannot be given whole ones")
        self._clean_up_again()
        return self._whole.update(name, gpus, release)

    @serial
    def reshare(self, container_id: str, parts: Sequence[CardPart]) -> Change:
        """Have a container have these parts of cards in place of those that it has: none while it is suspended.

        What it can open has changed on return. On disk is who may have a part before he can open the card, and that he
        has none only when he cannot open it any more. Raises NotFound, NotEnoughGpus, Conflict for a card that it has
        open, Unavailable, ContainerError; it then has what it had.
        """
        name, wanted = container_id_of(container_id), parts_of(parts)
        share = self._shares.get(name)
        if share is None:
            raise NotFound(f"container {name} shares no GPU here")
        new = share.moved(wanted)
        if new.parts:
            self._check_room(name, new)
            self._replace_record(name, share, new)
        try:
            if new.parts and self.keeper is not None:
                self.keeper.limit(name, new)
            change = self._reach(name, new)
            self._record(name, new)
        except MesosGpuError:
            self._reach_again(name, share, new)
            raise
        self._put(name, new)
        if self.tables is not None and new.parts:
            try:
                self.tables.change(name, self._memory(new))
            except Unavailable as error:
                log.error("programs in container %s may see the GPU memory of its former share: %s", name, error)
        return change

    def _recorded(self) -> dict[ContainerId, Share]:
        """Return the shares on record, and take note of cards that their containers can open and do not share now."""
        recorded = self._records.load()
        for name, one in recorded.items():
            mine = self._cards_of(one.share)
            self._whole.note_lost(name, [was for was in one.gpus if not any(was.opens(gpu) for gpu in mine)])
        return {name: one.share for name, one in recorded.items()}

    def _replace_record(self, container_id: ContainerId, share: Share, new: Share) -> None:
        """Record a new share, and that both can be opened; after an error restore the record of the old one."""
        try:
            self._record(container_id, new, share)
        except BaseException:
            self._unwritten.add(container_id)
            with suppress(MesosGpuError):
                self._record(container_id, share)
                self._unwritten.discard(container_id)
            raise

    def _reach(self, container_id: ContainerId, share: Share) -> Change:
        gpus = self._cards_of(share)
        return self._whole.reach(container_id, gpus, [gpu for gpu in self.gpus if gpu not in gpus])

    def _reach_again(self, container_id: ContainerId, share: Share, new: Share) -> None:
        """Undo a change that took effect in part or not at all; if that fails too, the container has both."""
        try:
            self._reach(container_id, share)
            self._record(container_id, share)
        except MesosGpuError as error:
            log.error("container %s may open cards that it shares no more, and so has them: %s", container_id, error)
            self._put(container_id, new if new.parts else share)

    def _put(self, container_id: ContainerId, share: Share) -> None:
        """Have a container have a share."""
        self._shares[container_id] = share
        self._changed(AllocateShare(container(container_id), share))

    def _changed(self, event: AllocateShare | Release) -> None:
        self._whole.tell(event)
        self._whole.live_ledger.compare_shares(self._shares)

    @serial
    def stale(self) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        """Return the nodes that containers can open and that belong to no GPU of theirs: see `revoke`."""
        return self._whole.stale()

    @serial
    def revoke(self, container_id: str) -> Change:
        """Deny a container what it can open and neither holds nor shares. Raises as NvidiaGpuIsolator.revoke does."""
        name = container_id_of(container_id)
        share = self._shares.get(name)
        change = self._whole.revoke(name, () if share is None else self._cards_of(share))
        if share is not None:
            self._record(name, share)
        return change

    def _cards_of(self, share: Share) -> Sequence[Gpu]:
        return [self._gpus[part.card] for part in share.parts if part.card in self._gpus]

    def _record(self, container_id: ContainerId, *shares: Share) -> None:
        """Record the first of these shares, and that the container can open the cards of all of them."""
        gpus = dict.fromkeys(HeldGpu.of(gpu) for share in shares for gpu in self._cards_of(share))
        self._records.save(container_id, shares[0], gpus)

    @serial
    def cleanup(self, container_id: str) -> None:
        """Free what the container holds and shares, once no process of it is left.

        Raises Unavailable when a record cannot be removed. It is held then until this is called again, or somebody else
        asks for something, and the disk takes it.
        """
        name = container_id_of(container_id)
        self._over.add(name)
        if name in self._shares:
            self._forget(name)
            del self._shares[name]
            self._changed(Release(container(name)))
        self._whole.cleanup(name)
        self._unwritten.discard(name)
        self._over.discard(name)

    def _clean_up_again(self) -> None:
        for container_id in sorted(self._over):
            try:
                self.cleanup(container_id)
            except (MesosGpuError, OSError) as error:
                log.warning("what container %s held stays held: %s", container_id, error)
        for container_id in sorted(self._unwritten):
            with suppress(Unavailable):
                self._record(container_id, self._shares[container_id])
                self._unwritten.discard(container_id)

    def _forget(self, container_id: ContainerId) -> None:
        if self.tables is not None:
            self.tables.remove(container_id)
        self._records.remove(container_id)
        self._whole.cleanup(container_id)  # last: it cannot fail for a container without whole GPUs

    def _check(self, container_id: ContainerId, gpus: int, share: Share) -> None:
        if gpus:
            raise BadInput(f"container {container_id} asks for whole GPUs and for parts of others: one or the other")
        self._check_room(container_id, share)

    def _check_room(self, container_id: ContainerId, share: Share) -> None:
        """Refuse a share that there is no room for. Raises NotEnoughGpus, BadInput."""
        event = AllocateShare(container(container_id), share)

        def allocated() -> None:
            handle(self._whole.ledger, event)

        self._whole.live_ledger.decided(f"{event}", lambda: self._find_room(container_id, share), allocated)

    def _find_room(self, container_id: ContainerId, share: Share) -> None:
        others = [other for one, other in self._shares.items() if one != container_id]
        # Who has a part of a withdrawn card keeps it: an agent that was killed may have closed it to him already.
        had = {part.card for part in self._shares.get(container_id, Share(())).parts}
        for part in share.parts:
            card = self.cards.get(part.card)
            if card is None:
                raise BadInput(f"card {part.card} is not shared here: {', '.join(map(str, self.cards)) or 'none is'}")
            if part.card in self.closed and part.card not in had:
                raise NotEnoughGpus(asked=part.mem_units, free=0, of=f"GiB of card {card.index}, which is withdrawn")
            if self._whole.reachable(self._gpus[part.card]):
                raise NotEnoughGpus(
                    asked=part.mem_units, free=0, of=f"GiB of card {card.index}, which another can open"
                )
            taken = [p for other in others for p in other.parts if p.card == part.card]
            memory, slices = sum(p.mem_units for p in taken), sum(p.weight for p in taken)
            if memory + part.mem_units > card.mem_units:
                raise NotEnoughGpus(asked=part.mem_units, free=card.mem_units - memory, of=f"GiB of card {card.index}")
            if slices + part.weight > card.slices:
                raise NotEnoughGpus(asked=part.weight, free=card.slices - slices, of=f"slices of card {card.index}")

    def _with_cards(
        self, plan: LaunchPlan, container_id: ContainerId, share: Share | None, *, host_files: bool
    ) -> LaunchPlan:
        if share is None or not share.parts or not plan.nodes:
            return plan
        gpus = tuple(self._gpus[part.card] for part in share.parts if part.card in self._gpus)
        nodes = tuple(node for node in gpu_nodes(gpus) if node not in plan.nodes)
        said = ShareAsk(
            tuple(part.mem_units for part in share.parts),
            max(part.weight for part in share.parts),
            share.high_priority,
            card_gib=self.cards[share.parts[0].card].mem_units if share.parts[0].card in self.cards else None,
        ).variables()
        sockets = [str(self.sockets[part.card]) for part in share.parts if part.card in self.sockets]
        if sockets:
            said[SIMULATED_CARDS] = ",".join(sockets)
        visible = {VISIBLE_DEVICES: ",".join(gpu.uuid for gpu in gpus)}
        plan = replace(
            plan,
            nodes=(*nodes, *plan.nodes),
            rules=(*map(rule_for, nodes), *plan.rules),
            mounts=(
                *plan.mounts,
                *self._table(plan, container_id, share, host_files=host_files),
                *(BindMount(path, path, read_only=False) for path in sockets),
            ),
            environment={**plan.environment, **said, **visible},
        )
        return plan if self.keeper is None else plan.joined(self.keeper.plan(share))

    def _table(
        self, plan: LaunchPlan, container_id: ContainerId, share: Share, *, host_files: bool
    ) -> tuple[BindMount, ...]:
        """Return the mount that shows a container the size of its parts; none where it does not see the volume."""
        image = any(mount.destination == CONTAINER_PATH for mount in plan.mounts)
        if self.tables is None or not (image or host_files):
            return ()
        return (self.tables.show(container_id, self._memory(share), image=image),)

    def _memory(self, share: Share) -> dict[int, int]:
        known = [part for part in share.parts if part.card in self.cards]
        return {part.card: self.cards[part.card].memory_of(part.mem_units) for part in known}
