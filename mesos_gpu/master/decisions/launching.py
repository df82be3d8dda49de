"""ACCEPT and DECLINE: offers become tasks, or refused resources.

Source: Mesos src/master/master.cpp (accept, _accept, decline).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.master.allocation.filters import refuse_seconds
from mesos_gpu.master.decisions.operations import failed, perform, refined
from mesos_gpu.master.decisions.permissions import task_refusal
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent, Executor, Framework, Offer, add
from mesos_gpu.master.model.shared_volumes import Left
from mesos_gpu.master.model.statuses import made_here
from mesos_gpu.master.state.actions import Action, RunTask, RunTaskGroup
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.validation.group_validation import GroupLaunch, group_problem
from mesos_gpu.master.validation.malformed import malformed
from mesos_gpu.master.validation.validation import Launch, executor_resources, task_problem
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.secrets import without_secrets

# Fields of a TaskInfo that its Task keeps.
_TASK_FIELDS = (
    "name",
    "task_id",
    "agent_id",
    "labels",
    "discovery",
    "container",
    "health_check",
    "kill_policy",
    "limits",
)


def accept(state: MasterState, framework: Framework, body: Mapping[str, Any], now: Moment) -> list[Action]:
    """ACCEPT: launch what is valid, answer the rest with TASK_ERROR, and refuse what is left over."""
    offer_ids = [offer_id["value"] for offer_id in body.get("offer_ids", ())]
    operations: Sequence[Document] = body.get("operations", ())
    offers = [framework.offers[offer_id] for offer_id in dict.fromkeys(offer_ids) if offer_id in framework.offers]
    problem = _offers_problem(framework, offer_ids, offers)
    for offer in offers:
        state.drop_offer(offer)
    seconds = refuse_seconds(body.get("filters"))
    if problem is not None:
        for offer in offers:
            _refuse(state, offer, offer.unallocated, seconds, now)
        return _all_lost(state, framework, operations, problem, now)
    framework.counters["offers/accepted"] += len(offers)
    agent, role = state.agents[offers[0].agent_id], offers[0].role
    left = Left.of(add(offer.resources for offer in offers))
    actions: list[Action] = []
    for operation in operations:
        framework.counters["operations"] += 1
        framework.counters[f"operations/{operation.get('type', 'UNKNOWN').lower()}"] += 1
        made, left = _perform(state, framework, agent, role, operation, left, now)
        actions += made
    _refuse(state, offers[0], left.resources, seconds, now)
    return actions


def decline(state: MasterState, framework: Framework, body: Mapping[str, Any], now: Moment) -> list[Action]:
    """DECLINE: the resources are free again and not offered to this framework for a while."""
    seconds = refuse_seconds(body.get("filters"))
    for offer_id in body.get("offer_ids", ()):
        offer = framework.offers.get(offer_id["value"])
        if offer is not None:
            state.drop_offer(offer)
            framework.counters["offers/declined"] += 1
            _refuse(state, offer, offer.unallocated, seconds, now)
    return []


def _offers_problem(framework: Framework, offer_ids: Sequence[str], offers: Sequence[Offer]) -> str | None:
    if not offer_ids:
        return "No offers specified"
    for index, offer_id in enumerate(offer_ids):
        if offer_id in offer_ids[:index]:
            return f"Duplicate offer {offer_id} in offer list"
        if offer_id not in framework.offers:
            return f"Offer {offer_id} is no longer valid"
    first = offers[0]
    for offer in offers:
        if offer.role != first.role:
            return (
                "Aggregated offers must be allocated to the same role. "
                f"Offer {offer.id} uses role '{offer.role}' but another is using role '{first.role}'"
            )
        if offer.agent_id != first.agent_id:
            return (
                "Aggregated offers must belong to one single agent. "
                f"Offer {offer.id} uses agent {offer.agent_id} and agent {first.agent_id}"
            )
    return None


def _refuse(state: MasterState, offer: Offer, resources: Resources, seconds: float, now: Moment) -> None:
    if resources:
        state.filters.refuse(
            offer.framework_id, offer.role, offer.agent_id, resources.unallocated(), seconds, now.mono_s
        )


def _all_lost(
    state: MasterState, framework: Framework, operations: Sequence[Document], problem: str, now: Moment
) -> list[Action]:
    actions: list[Action] = []
    for operation in operations:
        for task in _tasks_of(operation):
            status = made_here(
                framework,
                "TASK_DROPPED",
                now,
                task_id=task["task_id"]["value"],
                agent_id=task["agent_id"]["value"],
                reason="REASON_INVALID_OFFERS",
                message=f"Task launched with invalid offers: {problem}",
            )
            state.count_end(framework, status)
            actions += state.tell_status(framework, status)
        if not _tasks_of(operation):
            actions += failed(state, framework, operation, problem)
    return actions


def _perform(
    state: MasterState,
    framework: Framework,
    agent: Agent,
    role: Role,
    operation: Document,
    left: Left,
    now: Moment,
) -> tuple[list[Action], Left]:
    kind = operation.get("type", "UNKNOWN")
    actions: list[Action] = []
    wrong = malformed(operation)
    if wrong is not None:
        reason = "REASON_TASK_INVALID" if kind == "LAUNCH" else "REASON_TASK_GROUP_INVALID"
        for task in _tasks_of(operation):
            actions += _refused(state, framework, task, reason, wrong, now)
        if not kind.startswith("LAUNCH"):
            actions = failed(state, framework, operation, f"Operation attempted with invalid resources: {wrong}")
    elif kind == "LAUNCH":
        for task in _tasks_of(operation):
            prepared = _prepared(framework, task, role)
            launch = Launch(prepared, framework, agent, left.available)
            refusal = task_refusal(state, framework, prepared, group=False)
            if refusal is not None:
                actions += _refused(state, framework, task, "REASON_TASK_UNAUTHORIZED", refusal, now)
                continue
            problem = _id_on_launch_problem(operation) or task_problem(launch)
            if problem is None:
                left = left.less(launch.asked + executor_resources(launch))
                actions.append(_launch(state, launch))
            else:
                actions += _refused(state, framework, task, "REASON_TASK_INVALID", problem, now)
    elif kind == "LAUNCH_GROUP":
        group = _group(framework, agent, role, operation, left.available)
        if group is None:
            return actions, left
        refusals = [task_refusal(state, framework, task, group=True) for task in group.tasks]
        # The last one counts, in Mesos; none of a group may run where one may not.
        refusal = next(filter(None, reversed(refusals)), None)
        problem = refusal or _id_on_launch_problem(operation) or group_problem(group)
        if problem is None:
            left = left.less(group.required)
            actions.append(_launch_group(state, group))
        else:
            reason = "REASON_TASK_GROUP_INVALID" if refusal is None else "REASON_TASK_GROUP_UNAUTHORIZED"
            for task in group.tasks:
                actions += _refused(state, framework, task, reason, problem, now)
    else:
        actions, after = perform(state, framework, agent, role, operation, left.resources)
        left = left.after(after)
    return actions, left


def _launch(state: MasterState, launch: Launch) -> RunTask:
    framework, agent, info = launch.framework, launch.agent, launch.task
    new_executor = executor_resources(launch)
    launch_executor = True
    if "executor" in info:
        key = (framework.id, info["executor"]["executor_id"]["value"])
        launch_executor = key not in agent.executors
        if launch_executor:
            state.add_executor(framework.id, agent, Executor(info["executor"], new_executor))
    state.add_task(framework, agent, new_task(framework, info, launch.asked))
    state.counters["tasks_launched"] += 1
    return RunTask(agent.id, framework.info, info, launch_executor)


def _group(
    framework: Framework, agent: Agent, role: Role, operation: Mapping[str, Any], available: Resources
) -> GroupLaunch | None:
    """Return the group of a LAUNCH_GROUP; None for one without tasks, which changes nothing."""
    tasks = _tasks_of(operation)
    if not tasks:
        return None
    given = operation["launch_group"]["executor"]
    executor = _allocated(given, role)
    prepared: list[TaskInfo] = []
    for sent in tasks:
        alone = sent.copy()
        alone.pop("executor", None)
        task = _prepared(framework, alone, role)
        if "executor" in sent:
            task["executor"] = executor if sent["executor"] == given else sent["executor"]
        prepared.append(task)
    return GroupLaunch(executor, prepared, framework, agent, available)


def _launch_group(state: MasterState, group: GroupLaunch) -> RunTaskGroup:
    framework, agent = group.framework, group.agent
    launch_executor = group.new_executor
    if launch_executor:
        state.add_executor(framework.id, agent, Executor(group.executor, group.executor_resources))
    tasks: list[TaskInfo] = [{**task, "executor": group.executor} for task in group.tasks]
    for task in tasks:
        state.add_task(framework, agent, new_task(framework, task, Resources.from_json(task["resources"])))
    state.counters["tasks_launched"] += len(tasks)
    return RunTaskGroup(agent.id, framework.info, group.executor, tasks, launch_executor)


def new_task(framework: Framework, info: Mapping[str, Any], resources: Resources) -> Task:
    """Return the Task of a TaskInfo, whose resources these are, that is about to be sent to its agent."""
    document: Document = {field: without_secrets(info[field]) for field in _TASK_FIELDS if field in info}
    document |= {"framework_id": {"value": framework.id}, "state": "TASK_STAGING", "resources": info["resources"]}
    command = info.get("command") or info.get("executor", {}).get("command", {})
    if "user" in command:
        document["user"] = command["user"]
    if "executor" in info:
        document["executor_id"] = info["executor"]["executor_id"]
    return Task(document, resources)


def _prepared(framework: Framework, task: TaskInfo, role: Role) -> TaskInfo:
    """Return a TaskInfo with what the scheduler may leave out filled in."""
    prepared: TaskInfo = {**task, "resources": [refined(r, role) for r in task.get("resources", ())]}
    if "executor" in task:
        prepared["executor"] = {"framework_id": {"value": framework.id}, **_allocated(task["executor"], role)}
    check = prepared.get("health_check")
    if check is not None and "type" not in check and ("command" in check or "http" in check):
        prepared["health_check"] = {**check, "type": "COMMAND" if "command" in check else "HTTP"}
    return prepared


def _allocated(info: ExecutorInfo, role: Role) -> ExecutorInfo:
    return {**info, "resources": [refined(r, role) for r in info.get("resources", ())]}


def _refused(
    state: MasterState, framework: Framework, task: TaskInfo, reason: str, problem: str, now: Moment
) -> list[Action]:
    status = made_here(
        framework,
        "TASK_ERROR",
        now,
        task_id=task["task_id"]["value"],
        agent_id=task["agent_id"]["value"],
        executor_id=task.get("executor", {}).get("executor_id", {}).get("value"),
        reason=reason,
        message=problem,
    )
    state.count_end(framework, status)
    return state.tell_status(framework, status)


def _id_on_launch_problem(operation: Mapping[str, Any]) -> str | None:
    return f"The 'id' field must not be set on a {operation['type']} operation" if "id" in operation else None


def _tasks_of(operation: Mapping[str, Any]) -> Sequence[TaskInfo]:
    if operation.get("type") == "LAUNCH":
        tasks: Sequence[TaskInfo] = operation.get("launch", {}).get("task_infos", ())
        return tasks
    if operation.get("type") == "LAUNCH_GROUP":
        group: Sequence[TaskInfo] = operation.get("launch_group", {}).get("task_group", {}).get("tasks", ())
        return group
    return ()
