"""The one place that decides: a state and an event in, the next state and the actions to take out. Pure.

Actions come in the order in which they must be done, what has to be on disk first.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from typing_extensions import assert_never

from mesos_gpu.marathon.decisions import (
    group_requests,
    job_progress,
    job_requests,
    lifecycle,
    pod_requests,
    requests,
    residency,
    suspending,
)
from mesos_gpu.marathon.decisions.clock import heed_the_clock
from mesos_gpu.marathon.decisions.health_updates import take_health, take_readiness
from mesos_gpu.marathon.decisions.job_progress import watch_jobs
from mesos_gpu.marathon.decisions.launching import (
    ask_for_offers,
    forget_offers,
    look_again,
    next_launch_s,
    offered,
    rescinded,
    use_held,
    use_queued,
)
from mesos_gpu.marathon.decisions.progress import settle
from mesos_gpu.marathon.decisions.roles import ask_for_roles
from mesos_gpu.marathon.decisions.run_limits import ends_s, run_limits
from mesos_gpu.marathon.decisions.updates import reconcile, start_timeout_s, take_status, watch
from mesos_gpu.marathon.matching.share_scheduling import high_share
from mesos_gpu.marathon.model.instances import COMING_UP, Cause, Phase, moved
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.accounting import account, take_measured
from mesos_gpu.marathon.state.actions import (
    Action,
    Decline,
    Exit,
    Launch,
    Publish,
    Reconcile,
    Resubscribe,
    Revive,
    Say,
    Suppress,
    UpdateRoles,
)
from mesos_gpu.marathon.state.asked import NOTHING_ASKED
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import (
    CallFailed,
    CancelDeployment,
    Disconnected,
    EnforceRole,
    Event,
    FrameworkError,
    HealthChecked,
    KillTasks,
    MasterEvent,
    Measured,
    Moment,
    Offered,
    PutApps,
    PutGroup,
    PutJob,
    PutPod,
    PutSchedule,
    ReadinessChecked,
    RemoveApp,
    RemoveGroup,
    RemoveJob,
    RemoveSchedule,
    Request,
    Rescinded,
    ResetDelay,
    RestartApp,
    StartRun,
    Status,
    StopRun,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.documents import TaskStatus

# Mesos' words: src/master/master.cpp, subscribe() and failoverFramework().
_REMOVED = ("Framework has been removed", "Completed framework attempted to re-register")
_TAKEN_OVER = "Framework failed over"
_RETRY_RECONCILIATION_S = 5.0
_MANY, _MANY_S = 200, 10.0
"""When something is due about so many instances is not worked out at each event: they are looked at every so often."""


def handle(state: State, event: Event, moment: Moment, settings: Settings) -> tuple[State, list[Action]]:
    """Return the state after `event` and what to do about it.

    An API event that cannot be done raises what the caller did wrong (see `requests`); the state stays as it was.
    """
    draft, requested = Draft(state, moment, settings), False
    if isinstance(event, Tick) or draft.now_s < draft.latest_s:
        # At once: the next tick would be put off until the time that the clock has led to.
        heed_the_clock(draft)
    draft.latest_s = draft.now_s
    match event:
        case Subscribed() | Disconnected() | Offered() | Rescinded() | Status() | FrameworkError() | CallFailed():
            _take_news(draft, event)
        case Tick():
            draft.watched_s = draft.now_s
            use_held(draft)
            watch(draft)
            watch_jobs(draft)
        case HealthChecked():
            take_health(draft, event)
        case ReadinessChecked():
            take_readiness(draft, event)
        case Measured():
            take_measured(draft, event)
        case _:
            requested = True
            _take_request(draft, event)
    settle(draft)
    if draft.ordered or draft.waiting.changes:
        look_again(draft, tick=isinstance(event, Tick))
        settle(draft)
    if draft.queued or draft.token_short:
        use_queued(draft)
        settle(draft)
    ask_for_roles(draft)
    ask_for_offers(draft, requested=requested)
    if draft.actions or not isinstance(event, Tick):
        draft.stirred_s = draft.now_s
    account(draft, state)
    return draft.finish()


def _take_news(draft: Draft, event: MasterEvent) -> None:
    match event:
        case Subscribed():
            _subscribed(draft, event)
        case Disconnected():
            if draft.subscribed:
                draft.actions.append(Publish("scheduler_disconnected_event", {}))
            draft.subscribed = False
            forget_offers(draft)
        case Offered(offers=offers):
            # Without a subscription these are left over from one that has ended, and void.
            if draft.subscribed:
                offered(draft, offers)
        case Rescinded(offer_id=offer_id):
            rescinded(draft, offer_id)
        case Status(status=status):
            take_status(draft, status)
        case FrameworkError(message=message):
            _refused(draft, message)
        case CallFailed():
            _call_failed(draft, event)
        case _:
            assert_never(event)


def _take_request(draft: Draft, event: Request) -> None:
    match event:
        case PutApps():
            requests.put_apps(draft, event)
        case PutPod():
            pod_requests.put_pod(draft, event)
        case RemoveApp():
            requests.remove_app(draft, event)
        case RestartApp():
            requests.restart_app(draft, event)
        case KillTasks():
            requests.kill_tasks(draft, event)
        case CancelDeployment():
            requests.cancel_deployment(draft, event)
        case ResetDelay():
            requests.reset_delay(draft, event)
        case PutGroup():
            group_requests.put_group(draft, event)
        case RemoveGroup():
            group_requests.remove_group(draft, event)
        case EnforceRole():
            group_requests.enforce_role(draft, event)
        case PutJob() | RemoveJob() | PutSchedule() | RemoveSchedule() | StartRun() | StopRun():
            job_requests.take(draft, event)
        case _:
            assert_never(event)


def next_tick_s(state: State, settings: Settings, moment: Moment) -> float | None:
    """Return when the passing of time will next matter; None when it will not."""
    times: list[float] = []
    if state.subscribed and state.reconcile_at_s is not None:
        times.append(state.reconcile_at_s)
    launch_s = next_launch_s(state, settings, moment)
    if launch_s is not None:
        times.append(launch_s)
    if state.subscribed and any(high_share(state.app(app_id)) for app_id in state.singular):
        times.append(moment.now_s + suspending.LOOK_S)
    times += [at for job in state.jobs.values() if (at := job.next_event_s()) is not None]
    limits = run_limits(state)
    instances = state.instances
    ids = {key for task_id in state.kills if (key := instance_of(task_id)) is not None}
    if len(state.timely) <= _MANY:
        ids.update(state.timely)
    else:
        times.append(max(moment.now_s, state.watched_s + _MANY_S))
    ids.update(key for app_id in limits for key in state.members.of(app_id))
    for instance in (instances[key] for key in ids if key in instances):
        task = instance.task
        if (
            state.subscribed
            and instance.reservation is not None
            and (due_s := residency.due_s(instance, settings)) is not None
        ):
            times.append(due_s)
        if task is None:
            continue
        if task.suspension and not task.away_by_hand and state.subscribed and instance.phase is Phase.RUNNING:
            times.append(suspending.due_s(task, moment.now_s))
        if instance.app_id in limits and instance.active and task.id not in state.kills:
            times += [at for at in (ends_s(task, limits[instance.app_id]),) if at < inf]
        if instance.phase is Phase.UNREACHABLE:
            spec = state.app(instance.app_id)
            strategy = spec.document["unreachableStrategy"] if spec is not None else "disabled"
            if isinstance(strategy, Mapping) and task.unreachable_since_s is not None:
                times_s = (strategy["inactiveAfterSeconds"], strategy["expungeAfterSeconds"])
                times += [at for limit in times_s if (at := task.unreachable_since_s + float(limit)) > moment.now_s]
        elif task.id in state.kills:
            times.append(state.kills[task.id] + settings.kill_retry_s)
        elif instance.phase in COMING_UP:
            times.append(task.staged_at_s + start_timeout_s(instance, settings))
    return min(times, default=None)


def _subscribed(draft: Draft, event: Subscribed) -> None:
    kind = "scheduler_reregistered_event" if event.again else "scheduler_registered_event"
    fields = {"master": event.master} if event.again else {"master": event.master, "frameworkId": event.framework_id}
    draft.actions.append(Publish(kind, fields))
    draft.framework_id = event.framework_id
    # A subscription begins unsuppressed, and whatever was asked of an earlier one may not have arrived.
    draft.subscribed, draft.suppressed, draft.asked_for = True, False, NOTHING_ASKED
    draft.roles = frozenset()
    # Offers of an earlier subscription are void.
    forget_offers(draft)
    draft.region = event.region
    reconcile(draft, again_in_s=draft.settings.reconcile_initial_s)
    residency.after_subscribing(draft)
    for instance in list(draft.instances.values()):
        if instance.released:
            continue
        if draft.app(instance.app_id) is None and instance.wanted:
            lifecycle.give_up(draft, instance)
        elif instance.task is not None and (instance.task.id in draft.kills or not instance.wanted):
            draft.kills.drop(instance.task.id)
            lifecycle.end(draft, instance.task)
        elif instance.phase is Phase.RUNNING:
            suspending.asked_anew(draft, instance)
        if instance.task is not None and instance.task.gang is not None:
            draft.touched.add(instance.app_id)  # who was to end it, as a mate is gone, may have died and told nobody


def _refused(draft: Draft, message: str) -> None:
    if any(words in message for words in _REMOVED):
        _start_over(draft, message)
    elif _TAKEN_OVER in message:
        # Subscribing again would throw the other one out, which would throw us out, and so on.
        draft.actions.append(
            Exit(f"another scheduler has taken over framework {draft.framework_id}; only one may use it")
        )
    else:
        draft.actions.append(Say(f"the master refuses this framework: {message}"))


def _start_over(draft: Draft, message: str) -> None:
    """Become a new framework: Mesos has ended the old one with its tasks, and its id can never be used again."""
    lost = [i for i in draft.instances.values() if i.active]
    words = f"the master says of framework {draft.framework_id}: {message}."
    if lost:
        words += f" Its {len(lost)} tasks are lost (Mesos ends the tasks of a removed framework)."
    draft.actions.append(Say(f"{words} Starting over with a new framework id"))
    for instance in lost:
        if instance.task is not None:
            # A run of a job may have done its work: nobody is left to say so, and it is not carried out twice.
            status: TaskStatus = {
                "task_id": {"value": instance.task.id},
                "state": "TASK_LOST",
                "source": "SOURCE_MASTER",
                "reason": "REASON_FRAMEWORK_REMOVED",
                "message": message,
            }
            job_progress.take_status(draft, instance, instance.task.id, status, Cause.TASK_ENDED)
        ended = moved(instance, Cause.TASK_ENDED, draft.now_s)
        lifecycle.after_end(draft, ended, replaced=False)
    draft.framework_id, draft.subscribed = None, False
    draft.actions.append(Resubscribe())


def _call_failed(draft: Draft, event: CallFailed) -> None:
    """Make good what a call that did not get through leaves open; statuses and offers come again by themselves."""
    call = event.call
    if isinstance(call, Launch):
        # The tasks may run or not: only the master knows. If it has none of them it says so, and they start again.
        draft.actions += [
            Say(f"what was to be done on offer {call.offer_id} failed: {', '.join(call.task_ids)}: {event.problem}"),
            Decline([call.offer_id], 0.0),
            *([Reconcile(call.agents)] if call.agents else []),
        ]
    elif isinstance(call, Reconcile) and draft.reconcile_at_s is not None:
        draft.reconcile_at_s = min(draft.reconcile_at_s, draft.now_s + _RETRY_RECONCILIATION_S)
    elif isinstance(call, Revive):
        draft.asked_for, draft.revive_due = NOTHING_ASKED, True
    elif isinstance(call, Suppress):
        draft.suppressed = False
    elif isinstance(call, UpdateRoles):
        draft.roles = frozenset({draft.settings.role})
        draft.actions.append(Say(f"the master does not take the roles {', '.join(call.roles)}: {event.problem}"))
