"""All machines at once: where the next task goes. Scores are kept, and made again for machines that changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from mesos_gpu.placement.demand import WHOLE, Demand, Machine, Place
from mesos_gpu.placement.mix import Mix
from mesos_gpu.placement.policies import Policy, Rank
from mesos_gpu.placement.worth import Appraisal, Floats, Ints, Rows

_TIE = np.float32(0.05)
"""Of two machines that lose the same the fuller one is taken."""
_MANY = 128
_FORGET = 64
_KINDS = 16
"""So many times as many machines as there are may have been told apart before all are looked at again."""


class Fleet:
    """The machines of one cluster under one policy. Machines are told apart by name, and stay in the order given."""

    def __init__(self, machines: Mapping[str, Machine], policy: Policy, mix: Mix | None = None) -> None:
        self.policy, self.mix = policy, mix or Mix()
        self._machines = list(machines.values())
        self._names = list(machines)
        self._index = {name: row for row, name in enumerate(self._names)}
        self._models = sorted({machine.model for machine in self._machines})
        model = {name: at for at, name in enumerate(self._models)}
        rows, self._most = len(self._machines), max((len(m.cards) for m in self._machines), default=0) or 1
        self._model: Ints = np.array([model[machine.model] for machine in self._machines], np.int64)
        self._cpus, self._mem = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
        self._free, self._whole = np.zeros(rows, np.float32), np.zeros(rows, np.int64)
        self._cards: Ints = np.zeros((rows, self._most), np.int64)
        self._alone: NDArray[np.bool_] = np.zeros((rows, self._most), np.bool_)
        self._total = sum(len(machine.cards) for machine in self._machines)
        self._appraisal: Appraisal | None = None
        self._parts: Floats = np.zeros((rows, 0), np.float32)
        self._before: Floats = np.full(rows, nan, np.float32)
        self._scores: dict[Demand, Floats] = {}
        self._changed: list[int] = []
        self._known: dict[Demand, int] = {}
        self._kinds: dict[tuple[int, int, str, tuple[int, ...], int], int] = {}
        self._linked: Ints = np.zeros(rows, np.int64)
        self._any_links = any(machine.linked for machine in self._machines)
        self._kind: Ints = np.zeros(rows, np.int64)
        self._largest = Machine(
            max((m.cpus_milli for m in self._machines), default=0) or 1,
            max((m.mem_mib for m in self._machines), default=0) or 1,
        )
        for row in range(rows):
            self._write(row)

    @property
    def remembered(self) -> int:
        """Return how many changes of machines are kept beside the scores."""
        return len(self._changed)

    def machine(self, name: str) -> Machine:
        """Return what this machine has left."""
        return self._machines[self._index[name]]

    def change(self, name: str, machine: Machine) -> None:
        """Say what a machine has left now; model and number of cards stay as they were."""
        row = self._index[name]
        self._machines[row] = machine
        self._write(row)
        self._changed.append(row)

    def judge_by(self, mix: Mix) -> None:
        """Judge by another mix from now on."""
        self.mix = mix
        if self.policy.rank is Rank.LOSS:
            self._appraisal = None
            self._before[:] = nan

    def place(self, demand: Demand) -> Place | None:
        """Count the task into the mix, and take the best place for it; None when it fits nowhere."""
        self.mix.saw(demand)
        found = self.best(demand)
        if found is not None:
            self.change(found.machine, self.machine(found.machine).without(demand, found.cards))
        return found

    def best(self, demand: Demand, beside: Collection[str] = ()) -> Place | None:
        """Return the best place for the task, not on the machines `beside`; None when it fits nowhere.

        Nothing is taken.
        """
        if not self._machines:
            return None
        if self.policy.rank is Rank.LOSS and (self._appraisal is None or self.mix.due):
            self._appraise()
        elif self.remembered > _FORGET * len(self._machines) + _FORGET:
            self._forget()
        scores = self._current(demand)
        if beside:
            scores = scores.copy()
            scores[[self._index[name] for name in beside]] = inf
        row = int(scores.argmin())
        if scores[row] == inf:
            return None
        return Place(self._names[row], self._cards_for(row, demand))

    def _write(self, row: int) -> None:
        machine = self._machines[row]
        self._cpus[row], self._mem[row] = machine.cpus_milli, machine.mem_mib
        self._free[row], self._whole[row] = machine.free_milli, machine.whole
        cards = machine.cards
        if cards:
            # One by one these take as long as the rest of a choice.
            self._cards[row, : len(cards)] = cards
            self._alone[row, : len(cards)] = [free not in cards[:place] for place, free in enumerate(cards)]
        self._linked[row] = machine.most_linked if machine.linked else 0
        self._name_kind(row)
        self._before[row] = nan
        if self._appraisal is not None:
            self._parts[row] = self._appraisal.parts(self._cards[row : row + 1])[0]

    def _appraise(self) -> None:
        """Look at the mix again; all scores are forgotten."""
        self._appraisal = Appraisal(self.policy, self.mix.typical(), self._models, self._most)
        self._parts = self._appraisal.parts(self._cards)
        everything = np.arange(len(self._machines))
        self._appraisal.weigh(self._rows(everything), self._total)
        self._before = self._appraisal.worth(self._rows(everything))
        self._forget()

    def _forget(self) -> None:
        """Drop all scores; they are made again when they are asked for."""
        self._scores.clear()
        self._known.clear()
        self._changed.clear()
        if len(self._kinds) > _KINDS * len(self._machines):
            self._kinds.clear()
            for row in range(len(self._machines)):
                self._name_kind(row)

    def _name_kind(self, row: int) -> None:
        machine = self._machines[row]
        cards = tuple(sorted(machine.cards))
        alike = machine.cpus_milli, machine.mem_mib, machine.model, cards, int(self._linked[row])
        self._kind[row] = self._kinds.setdefault(alike, len(self._kinds))

    def _rows(self, rows: Ints) -> Rows:
        return Rows(
            self._cpus[rows], self._mem[rows], self._free[rows], self._whole[rows], self._model[rows], self._parts[rows]
        )

    def _current(self, demand: Demand) -> Floats:
        """Return the score of every machine for this size; infinite where it does not fit."""
        scores = self._scores.get(demand)
        if scores is None:
            scores = self._scores[demand] = np.full(len(self._machines), inf, np.float32)
            rows = np.arange(len(self._machines))
        else:
            rows = np.array(sorted(set(self._changed[self._known[demand] :])), np.int64)
        self._known[demand] = len(self._changed)
        if len(rows):
            scores[rows] = inf
            fitting = rows[self._fit(rows, demand)]
            if len(fitting) >= _MANY and self.policy.rank is not Rank.ORDER:
                # Many machines have the same left, above all those that are empty: one of each is scored.
                _, first, same = np.unique(self._kind[fitting], return_index=True, return_inverse=True)
                scores[fitting] = self._score(fitting[first], demand)[same]
            elif len(fitting):
                scores[fitting] = self._score(fitting, demand)
        return scores

    def _fit(self, rows: Ints, demand: Demand) -> NDArray[np.bool_]:
        fit = (self._cpus[rows] >= demand.cpus_milli) & (self._mem[rows] >= demand.mem_mib)
        if demand.share_milli:
            fit &= self._cards[rows].max(axis=1) >= demand.share_milli
        else:
            fit &= self._whole[rows] >= demand.gpus
        if demand.models:
            fit &= np.array([model in demand.models for model in self._models])[self._model[rows]]
        return np.asarray(fit, np.bool_)

    def _score(self, rows: Ints, demand: Demand) -> Floats:
        if self.policy.rank is Rank.ORDER:
            return rows.astype(np.float32)
        left = (
            self._free[rows] / (self._most * WHOLE)
            + self._cpus[rows] / self._largest.cpus_milli
            + self._mem[rows] / self._largest.mem_mib
        )
        if self.policy.rank is not Rank.LOSS:
            return np.asarray(left if self.policy.rank is Rank.LEAST_LEFT else -left, np.float32)
        stale = rows[np.isnan(self._before[rows])]
        if len(stale) and self._appraisal is not None:
            self._before[stale] = self._appraisal.worth(self._rows(stale))
        lost = self._before[rows] - self._after(rows, demand) + _TIE * left
        if self._any_links and demand.gpus > 1:
            lost += np.float32(self.policy.links * demand.gpu_milli) * (self._linked[rows] < demand.gpus)
        return np.asarray(lost, np.float32)

    def _after(self, rows: Ints, demand: Demand) -> Floats:
        """Return what each machine is worth with the task on it, on the card that suits best."""
        if not demand.share_milli:
            return self._worth_after(rows, demand, None)
        cards = self._alone[rows] & (self._cards[rows] >= demand.share_milli)
        at, card = cards.nonzero()
        worth = self._worth_after(rows[at], demand, card)
        return np.asarray(np.maximum.reduceat(worth, np.searchsorted(at, np.arange(len(rows)))), np.float32)

    def _worth_after(self, rows: Ints, demand: Demand, card: Ints | None) -> Floats:
        """Return what machines are worth with the task on this card of each, or on whole cards."""
        assert self._appraisal is not None
        table = self._appraisal.by_card
        whole, parts = self._whole[rows] - demand.gpus, self._parts[rows]
        if card is not None:
            free = self._cards[rows, card]
            whole = whole - (free == WHOLE)
            parts += table[free - demand.share_milli] - table[free]
        elif demand.gpus:
            parts -= demand.gpus * table[WHOLE]
        return self._appraisal.worth(
            Rows(
                self._cpus[rows] - demand.cpus_milli,
                self._mem[rows] - demand.mem_mib,
                self._free[rows] - demand.gpu_milli,
                whole,
                self._model[rows],
                parts,
            )
        )

    def _cards_for(self, row: int, demand: Demand) -> tuple[int, ...]:
        cards = self._machines[row].cards
        if not demand.share_milli:
            return self._machines[row].whole_cards(demand.gpus)
        fitting = [place for place, free in enumerate(cards) if free >= demand.share_milli]
        if self.policy.rank is Rank.ORDER:
            return (fitting[0],)
        if self.policy.rank is Rank.MOST_LEFT:
            return (max(fitting, key=lambda place: cards[place]),)
        fitting.sort(key=lambda place: cards[place])
        if self.policy.rank is Rank.LEAST_LEFT:
            return (fitting[0],)
        worth = self._worth_after(np.full(len(fitting), row), demand, np.array(fitting))
        return (fitting[int(worth.argmax())],)
