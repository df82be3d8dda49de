"""The one place where what happens becomes what is to be done: books, an event and the time in, actions out. Pure.

The books are changed in place; actions come in the order in which they must be carried out.
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.master.decisions import (
    agents,
    draining,
    driver_subscriptions,
    maintenance,
    offering,
    operations,
    readmission,
    registry_gc,
    roles,
    scheduler_calls,
    subscriptions,
    updates,
)
from mesos_gpu.master.events import agents as news
from mesos_gpu.master.events import operators as asked
from mesos_gpu.master.events import schedulers as calls
from mesos_gpu.master.events import stored, timers
from mesos_gpu.master.events.event import Event
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.moment import Moment


def handle(state: MasterState, event: Event, now: Moment) -> list[Action]:
    """Enter in the books what has happened, and return what is to be done about it.

    What an operator asks for, and UPDATE_FRAMEWORK, may be refused: BadInput, Conflict or Forbidden say why, and the
    books are as they were.
    """
    actions = decide(state, event, now)
    if state.deactivated:
        actions = [*actions, *draining.settle(state, now)]
    return actions


def decide(state: MasterState, event: Event, now: Moment) -> list[Action]:
    """Do the same for the event alone: agents that it leaves with nothing to drain are not looked at yet."""
    match event:
        case calls.FrameworkCall():
            return scheduler_calls.take(state, event, now)
        case news.AgentNews():
            return _agent_news(state, event, now)
        case timers.Timer():
            return _timer(state, event, now)
        case stored.Stored():
            return _stored(state, event, now)
        case asked.OperatorRequest():
            return _asked(state, event, now)
        case calls.Called(framework_id, kind):
            scheduler_calls.count(state, framework_id, kind)
            return []
        case calls.HeartbeatSent(stream_id):
            scheduler_calls.count_heartbeat(state, stream_id)
            return []
        case calls.Subscribe(stream_id, body):
            return subscriptions.subscribe(state, stream_id, body, now)
        case calls.DriverSubscribes():
            return driver_subscriptions.subscribe(state, event, now)
        case calls.DriverAborted(framework_id):
            return driver_subscriptions.aborted(state, framework_id)
        case calls.StreamClosed(stream_id):
            return subscriptions.disconnected(state, stream_id, now)
        case _:
            assert_never(event)


def _agent_news(state: MasterState, event: news.AgentEvent, now: Moment) -> list[Action]:
    match event:
        case news.StatusUpdate(agent_id, framework_id, status, latest_state):
            return updates.status_update(state, agent_id, framework_id, status, latest_state)
        case news.OperationStatus(agent_id, operation_uuid, status):
            return operations.status_update(state, agent_id, operation_uuid, status)
        case news.ExecutorMessage(agent_id, framework_id, executor_id, data):
            return updates.message_framework(state, agent_id, framework_id, executor_id, data)
        case news.ExecutorExited(agent_id, framework_id, executor_id, exit_status):
            return updates.exited_executor(state, agent_id, framework_id, executor_id, exit_status)
        case news.Register(report):
            return agents.register(state, report)
        case news.Reregister(report):
            return readmission.reregister(state, report, now)
        case news.Unregister(agent_id, pid):
            return agents.unregister(state, agent_id, pid)
        case news.AgentUpdate(agent_id, pid, resource_version_uuid, listed):
            return agents.updated(state, agent_id, pid, resource_version_uuid, listed)
        case news.LinkBroken(pid):
            return [*agents.exited(state, pid, now), *driver_subscriptions.exited(state, pid, now)]
        case news.AgentSilent(agent_id, why):
            return agents.unreachable(state, agent_id, now, why)
        case news.AgentsMissing(agent_ids):
            return agents.not_back(state, agent_ids, now)
        case _:
            assert_never(event)


def _timer(state: MasterState, event: timers.TimerEvent, now: Moment) -> list[Action]:
    match event:
        case timers.Allocate():
            return offering.offer_resources(state, now)
        case timers.Tick():
            return offering.tick(state, now)
        case timers.FailoverExpired(framework_id, epoch):
            return subscriptions.failover_expired(state, framework_id, epoch, now)
        case timers.CollectRegistry():
            return registry_gc.collect(state, now)
        case _:
            assert_never(event)


def _asked(state: MasterState, event: asked.OperatorEvent, now: Moment) -> list[Action]:
    match event:
        case asked.UpdateWeights(weight_infos):
            return roles.update_weights(state, weight_infos)
        case asked.UpdateQuota(body):
            return roles.update_quota(state, body)
        case asked.SetQuota(request):
            return roles.set_quota(state, request)
        case asked.RemoveQuota(role, how):
            return roles.remove_quota(state, role, how)
        case asked.UpdateSchedule(schedule):
            return maintenance.update_schedule(state, schedule)
        case asked.StartMaintenance(machine_ids):
            return maintenance.start(state, machine_ids)
        case asked.StopMaintenance(machine_ids):
            return maintenance.stop(state, machine_ids)
        case asked.DeactivateAgent(agent_id):
            return draining.deactivate(state, agent_id)
        case asked.DrainAgent(agent_id, body):
            return draining.drain(state, agent_id, body, now)
        case asked.ReactivateAgent(agent_id):
            return draining.reactivate(state, agent_id)
        case asked.MarkAgentGone(agent_id):
            return draining.mark_gone(state, agent_id, now)
        case asked.RemoveFramework(framework_id):
            framework = state.frameworks.get(framework_id)
            return [] if framework is None else subscriptions.remove_framework(state, framework, now)
        case asked.Operate(agent_id, operation, principal):
            agent = state.agents.get(agent_id)
            return [] if agent is None else operations.operate(state, agent, operation, principal)
        case _:
            assert_never(event)


def _stored(state: MasterState, event: stored.StoredEvent, now: Moment) -> list[Action]:
    match event:
        case stored.Elected(record):
            state.recover(record)
            state.elected = now
            return []
        case stored.NothingStored():
            return []
        case stored.AgentAdmitted(agent_id, report, instead_of):
            return agents.admitted(state, agent_id, report, instead_of, now)
        case stored.AgentReadmitted(agent_id, pid, info):
            return readmission.readmitted(state, agent_id, pid, info, now)
        case stored.AgentUnreachable(agent_id, since, why):
            return agents.marked_unreachable(state, agent_id, since, why)
        case stored.MissingAgentUnreachable(agent_id, since):
            return agents.missing_marked_unreachable(state, agent_id, since)
        case stored.AgentRemoved(agent_id, cause, counted):
            return agents.removed(state, agent_id, cause, counted, now)
        case stored.AgentDeactivated(agent_id, drain):
            return draining.deactivated(state, agent_id, drain)
        case stored.AgentReactivated(agent_id):
            return draining.reactivated(state, agent_id)
        case stored.AgentDrained(agent_id, drain):
            return draining.drained(state, agent_id, drain)
        case stored.AgentGone(agent_id, since):
            return draining.marked_gone(state, agent_id, since)
        case stored.AgentsForgotten(unreachable, gone):
            return registry_gc.forgotten(state, unreachable, gone)
        case stored.WeightsSet(weights):
            return roles.weights_set(state, weights)
        case stored.QuotasSet(quotas):
            return roles.quotas_set(state, quotas)
        case stored.ScheduleSet(schedule):
            return maintenance.schedule_set(state, schedule)
        case stored.MaintenanceStarted(machines):
            return maintenance.started(state, machines)
        case stored.MaintenanceStopped(machines):
            return maintenance.stopped(state, machines)
        case _:
            assert_never(event)
