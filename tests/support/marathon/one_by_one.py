"""Marathon's way with offers as it was written first: each app that waits is held against each offer, one by one.

What is decided in fewer steps now must come out as it does here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.decisions import launching, orchestrator, using
from mesos_gpu.marathon.decisions.launching import _revive_allowed_s, _revive_from_s, _revive_when_due
from mesos_gpu.marathon.decisions.offer_queue import next_use_s
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.matching import Match, Refusal
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.backoff import ready_at
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.actions import Suppress
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.queue_entry import QueueEntry, UnusedOffer
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.state.turns import Line, Turn, Turns


class OneByOne(using.OpenOffer):
    """An offer on which every app is tried, whoever was tried before."""

    def fill(self, ready: using.Ready, nowhere: Collection[str] = ()) -> None:
        self._entries: dict[str, QueueEntry] = getattr(self, "_entries", {})
        apps = list(ready)
        while apps and not self.cut_short:
            again: list[str] = []
            for app_id in apps:
                spec = self._draft.app(app_id)
                if spec is None:
                    continue
                if self.full or self._draft.tokens.left == 0:
                    self.cut_short = True
                    break
                if self.try_app(app_id, spec, ready):
                    self._entries.pop(app_id, None)
                    if app_id in ready:
                        again.append(app_id)
            apps = again

    def _find(self, spec: RunSpec, waiting: Line, prefer: Sequence[int]) -> tuple[Instance, Match | Refusal]:
        placed = using.placed_instances(self._draft, spec)
        found = using.matched(self._draft, spec, self.offer, self.left, placed, prefer=prefer)
        return self._draft.instances[waiting.first], found

    def refuse(self, app_id: str, reasons: tuple[Reason, ...]) -> None:
        entry = self._draft.queue.get(app_id) or QueueEntry(self._draft.now_s)
        offer, now_s = self.offer, self._draft.now_s
        self._entries[app_id] = replace(
            entry,
            processed=entry.processed + 1,
            unused=entry.unused + 1,
            last_unused_s=now_s,
            rejected={**entry.rejected, reasons[0]: entry.rejected.get(reasons[0], 0) + 1},
            last_offers={**entry.last_offers, offer.agent_id: UnusedOffer(offer.document, reasons, now_s)},
        )

    def close(self, refuse_s: float) -> bool:
        for app_id, entry in self._entries.items():
            self._draft.queue.put(app_id, entry)
        return super().close(refuse_s)


def ready_by_app(draft: Draft) -> using.Ready:
    startable: dict[str, bool] = {}
    ready: dict[str, list[Turn]] = {}
    specs: dict[str, RunSpec] = {}
    for instance in sorted(draft.waiting_instances(), key=lambda i: (i.since_s, i.id)):
        app_id = instance.app_id
        spec = draft.app(app_id)
        if app_id not in startable:
            startable[app_id] = spec is not None and ready_at(draft.backoffs.get(app_id), spec) <= draft.now_s
        if startable[app_id] and spec is not None:
            specs[app_id] = spec
            ready.setdefault(app_id, []).append((instance.since_s, instance.id))
    return using.Ready({app_id: Line(Turns(turns)) for app_id, turns in ready.items()}, specs)


def next_backoff_s(draft: Draft) -> float:
    delays = [
        ready_at(draft.backoffs.get(app_id), spec) - draft.now_s
        for app_id in draft.waiting_apps()
        if (spec := draft.app(app_id)) is not None
    ]
    return min((delay for delay in delays if delay > 0), default=inf)


def ask_for_offers(draft: Draft, *, requested: bool = False) -> None:
    for app_id in [app_id for app_id, known in draft.backoffs.items() if known.forgotten(draft.now_s)]:
        draft.backoffs.drop(app_id)
    if not draft.subscribed:
        return
    interval_s = draft.settings.min_revive_interval_s
    waiting: dict[str, str] = {}
    reasons: dict[str, bool] = {}
    for instance in draft.waiting_instances():
        app_id = instance.app_id
        if app_id not in reasons and (spec := draft.app(app_id)) is not None:
            reasons[app_id] = _revive_from_s(draft.backoffs.get(app_id), spec, interval_s) <= draft.now_s
        if app_id in reasons:
            waiting[instance.next_task_id] = app_id
    due = {task_id for task_id, app_id in waiting.items() if reasons[app_id]}
    due |= draft.releasing
    if not waiting and not draft.releasing:
        draft.asked_for, draft.revive_due, draft.revive_for_request = frozenset(), False, False
        if draft.settings.suppress_offers and not draft.suppressed and not draft.backoffs:
            draft.suppressed = True
            draft.actions.append(Suppress())
        return
    if draft.suppressed or not due <= draft.asked_for:
        draft.revive_due, draft.revive_for_request = True, draft.revive_for_request or requested
    draft.asked_for = draft.asked_for & (waiting.keys() | draft.releasing) | due
    _revive_when_due(draft)


def next_launch_s(state: State, settings: Settings, moment: Moment) -> float | None:
    interval_s, burst = settings.min_revive_interval_s, settings.revive_burst
    times: list[float] = []
    for app_id in set(state.waiting.values()):
        spec = state.app(app_id)
        if spec is not None:
            known = state.backoffs.get(app_id)
            times += [ready_at(known, spec), _revive_from_s(known, spec, interval_s)]
    times = [at for at in times if at > moment.now_s]
    if state.held_until_s is not None:
        times.append(state.held_until_s)
    if (use_s := next_use_s(state, settings, moment.now_s)) is not None:
        times.append(use_s)
    if state.subscribed and state.revive_due:
        allowed_s = _revive_allowed_s(state.revive_credit_s, interval_s, burst)
        if state.revive_for_request:
            allowed_s = min(allowed_s, state.revived_s + launching.REQUEST_INTERVAL_S)
        times.append(max(moment.now_s, allowed_s))
    return min(times, default=None)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Have Marathon decide so, as long as this is entered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "OpenOffer", OneByOne)
        patch.setattr(launching, "waits_in_lines", lambda draft, documents: False)
        patch.setattr(launching, "_ready_by_app", ready_by_app)
        patch.setattr(launching, "_next_backoff_s", next_backoff_s)
        patch.setattr(orchestrator, "ask_for_offers", ask_for_offers)
        yield
