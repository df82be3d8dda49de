"""What is remembered by the time, after the clock has gone back: nothing waits for a time that was never due."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from mesos_gpu.marathon.state.draft import Draft


def heed_the_clock(draft: Draft) -> None:
    """Reset times that lie further ahead than this clock allows: they were noted when the clock was ahead."""
    now_s, settings = draft.now_s, draft.settings
    if max(draft.watched_s, draft.latest_s) > now_s or not draft.watched_s:
        _heed_in_instances(draft)
    for app_id, known in list(draft.backoffs.items()):
        if known.reference_s > now_s:
            draft.backoffs.put(app_id, replace(known, reference_s=now_s))
    for task_id, asked_s in list(draft.kills.items()):
        if asked_s > now_s:
            draft.kills.put(task_id, now_s)
    draft.revive_credit_s = min(draft.revive_credit_s, now_s + settings.min_revive_interval_s * settings.revive_burst)
    draft.revived_s = min(draft.revived_s, now_s)
    draft.watched_s = min(draft.watched_s, now_s)
    if draft.reconcile_at_s is not None:
        longest_s = max(settings.reconcile_initial_s, settings.reconcile_interval_s)
        draft.reconcile_at_s = min(draft.reconcile_at_s, now_s + longest_s)
    if draft.held_until_s is not None:
        longest_s = settings.gang_offer_hold_s if draft.gathering else settings.offer_window_s
        draft.held_until_s = min(draft.held_until_s, now_s + longest_s)
    if draft.queued and draft.queued[-1][1] > now_s:
        draft.queued = tuple((offer, min(came_s, now_s)) for offer, came_s in draft.queued)
    draft.queue_used_s = min(draft.queue_used_s, now_s)
    draft.away = tuple(entry for entry in draft.away if entry[1] <= now_s)
    draft.freed = tuple(entry for entry in draft.freed if entry[2] <= now_s)
    if draft.tokens.refresh_s > now_s + settings.launch_token_refresh_s:
        draft.tokens = LaunchTokens().at(now_s, most=settings.launch_tokens, interval_s=settings.launch_token_refresh_s)


def _heed_in_instances(draft: Draft) -> None:
    """Do it with what instances were noted by: looked at when the clock has gone back, and first of all.

    Else what was away then would be waited for until that time and longer, a task might run for so much longer, what
    was suspended would not come back, a volume that its agent never made would be waited for, and what waits in order
    would come after all that is asked for later.
    """
    now_s = draft.now_s
    for instance in list(draft.instances.values()):
        task = instance.task
        if task is not None:
            started_s, away_s = task.started_at_s, task.unreachable_since_s
            task = replace(
                task,
                staged_at_s=min(task.staged_at_s, now_s),
                started_at_s=None if started_s is None else min(started_s, now_s),
                unreachable_since_s=None if away_s is None else min(away_s, now_s),
                suspension_s=min(task.suspension_s, now_s),
            )
        kept = instance.reservation
        if kept is not None:
            freed_s = kept.freed_s
            kept = replace(
                kept, since_s=min(kept.since_s, now_s), freed_s=None if freed_s is None else min(freed_s, now_s)
            )
        heeded = replace(instance, since_s=min(instance.since_s, now_s), task=task, reservation=kept)
        if heeded == instance:
            continue
        if instance.released:
            draft.instances.put(instance.id, heeded)  # a note of what is to be given back; no instance of its app
        else:
            draft.put_instance(heeded)
