"""An agent comes back with its id and its tasks: both books are made to agree.

Source: Mesos src/master/master.cpp (reregisterSlave, reconcileKnownSlave, __reregisterSlave).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.master.decisions import draining
from mesos_gpu.master.decisions.agents import MACHINE_DOWN, admit, may_stay, unreachable
from mesos_gpu.master.decisions.subscriptions import recover_framework
from mesos_gpu.master.events.stored import AgentReadmitted
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent, Executor, Framework, KnownAgent
from mesos_gpu.master.model.report import Report, described, kept_problem, report_problem, tasks_problem
from mesos_gpu.master.model.statuses import about, repeated
from mesos_gpu.master.registry.operations import Admit
from mesos_gpu.master.state.actions import (
    Action,
    AgentReregistered,
    KeepResources,
    KillTask,
    ObserveAgent,
    ShutdownAgent,
    ShutdownFramework,
    Store,
    UpdateFramework,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.documents import AgentInfo
from mesos_gpu.mesos.ids import AgentId, FrameworkId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.tasks import is_terminal

_FEEDBACK = "AGENT_OPERATION_FEEDBACK"


def reregister(state: MasterState, report: Report, now: Moment) -> list[Action]:
    """An agent with an id comes back: after its restart, ours, a broken link, or a time of silence."""
    wrong = (f"its framework: {words}" for info in report.frameworks if (words := framework_problem(info)) is not None)
    problem = report_problem(report) or tasks_problem(report) or next(wrong, None)
    if problem is not None:
        return [Warn(f"refusing the re-registration of the agent at {report.pid}: {problem}")]
    agent_id = report.info["id"]["value"]
    agent = state.agents.get(agent_id)
    mistaken = kept_problem(report)
    if mistaken is not None:
        return [ShutdownAgent(report.pid, f"Agent {agent_id} cannot be: {mistaken}")]
    if agent is not None and not _same_machine(agent, report):
        return [ShutdownAgent(report.pid, f"Agent {agent_id} is registered from another machine")]
    if agent is not None and agent.is_past(report.resource_version_uuid):
        return [Warn(f"ignoring a re-registration of agent {agent_id}: another process of it has registered since")]
    if state.policy.is_down(report.info["hostname"], report.pid):
        return [ShutdownAgent(report.pid, MACHINE_DOWN)]
    if agent_id in state.gone:
        return [ShutdownAgent(report.pid, draining.GONE)]
    before = state.transitions.returning.get(agent_id)
    if before is not None and before.pid == report.pid:
        state.transitions.returning[agent_id] = report  # it says it again, or better: that is what will count
        return []
    if state.transitions.under_way(agent_id) or state.transitions.introduced(report.pid):
        # It asks again; by then we know which of both it was.
        text = f"passing over a re-registration of agent {agent_id}: its coming or going is being stored"
        return [Warn(text, usual=True)]
    actions: list[Action] = []
    # Two agents cannot live at one address; the one that speaks is there.
    for other in [a.id for a in state.agents.values() if a.pid == report.pid and a.id != agent_id]:
        actions += unreachable(state, other, now)
    known = KnownAgent(described(report, agent_id)[0], report.pid)
    agent = state.agents.get(agent_id)
    if not actions and known == _known(state, agent_id):
        return _welcome(state, report, agent_id, now)  # the registry says so already
    if agent is not None:
        # It waits for our answer and takes nothing; what it has now is another matter than what was offered.
        actions += state.rescind_all(agent)
        agent.connected = False
        state.touch(agent)
    return [*actions, _store(state, report, agent_id)]


def _store(state: MasterState, report: Report, agent_id: AgentId) -> Store:
    """Have an agent admitted as it says it is, then welcome it; if it says otherwise meanwhile, store that first."""
    state.transitions.returning[agent_id] = report
    known = KnownAgent(described(report, agent_id)[0], report.pid)
    return Store(Admit(agent_id, known), AgentReadmitted(agent_id, known.pid, known.info))


def readmitted(state: MasterState, agent_id: AgentId, pid: str, info: AgentInfo, now: Moment) -> list[Action]:
    """An agent that came back is in the registry with this AgentInfo: welcome it, by what it said last."""
    latest = state.transitions.returning.pop(agent_id)
    if agent_id in state.transitions.marking_gone:
        return []
    if agent_id in state.gone:
        return [ShutdownAgent(pid, draining.GONE)]
    if described(latest, agent_id)[0] != info:
        return [_store(state, latest, agent_id)]
    return _welcome(state, latest, agent_id, now)


def _known(state: MasterState, agent_id: AgentId) -> KnownAgent | None:
    agent = state.agents.get(agent_id)
    return state.recovered.get(agent_id) if agent is None else KnownAgent(agent.info, agent.pid)


def _welcome(state: MasterState, report: Report, agent_id: AgentId, now: Moment) -> list[Action]:
    """Make both books agree; what of it concerns the registry is stored."""
    state.counters["slave_reregistrations"] += 1
    returned = agent_id in state.unreachable
    state.recovered.pop(agent_id, None)
    state.unreachable.pop(agent_id, None)
    agent = state.agents.get(agent_id)
    was_here = agent is not None
    actions: list[Action] = []
    keep: list[Action] = []
    if agent is None:
        agent = admit(state, report, agent_id, now)
    else:
        actions += _refresh(state, agent, report)
        if "RESOURCE_PROVIDER" not in report.capabilities:
            keep = [KeepResources(agent.id)]
    agent.reregistered_s = now.wall_s
    frameworks = _frameworks(state, report, now)
    missing = _missing(state, agent, report)
    _adopt_executors(state, agent, frameworks, report)
    told = _adopt_tasks(state, agent, frameworks, report, now, returned, was_here)
    _forget_lost_tasks(state, agent)
    agent.lacking = agent.beyond
    removed = [i["id"]["value"] for i in report.frameworks if i["id"]["value"] in state.completed]
    return [
        *actions,
        ObserveAgent(agent.id),
        AgentReregistered(agent.id, missing),
        *keep,
        *draining.welcome_back(state, agent),
        *(UpdateFramework(agent.id, f.info) for f in frameworks.values() if not f.recovered),
        *(ShutdownFramework(agent.id, framework_id) for framework_id in removed),
        *(KillTask(agent.id, fid, tid, policy) for (fid, tid), policy in agent.killed.items()),
        *told,
        *may_stay(state, agent),
    ]


def _same_machine(agent: Agent, report: Report) -> bool:
    same_ip = Pid.parse(agent.pid).ip == Pid.parse(report.pid).ip
    return same_ip and agent.hostname == report.info["hostname"]


def _refresh(state: MasterState, agent: Agent, report: Report) -> list[Action]:
    # An agent that knows no operations keeps what we tell it; another one knows best.
    told = None if "RESOURCE_PROVIDER" in report.capabilities else agent.total.kept()
    info, total = described(report, agent.id, told)
    # Offers were made of what we thought it had; it may have less, or run more than we know.
    actions = state.rescind_all(agent)
    agent.info, agent.total, agent.pid = info, total, report.pid
    if _FEEDBACK in agent.capabilities and _FEEDBACK not in report.capabilities:
        # An older agent at its place: it will not say again how those ended.
        for name in [name for name, one in agent.operations.items() if one.ended and one.id is not None]:
            del agent.operations[name]
    agent.version, agent.capabilities, agent.checkpoint = report.version, report.capabilities, report.checkpoint
    agent.take_version(report.resource_version_uuid)
    agent.connected = True
    state.touch(agent)
    return actions


def _frameworks(state: MasterState, report: Report, now: Moment) -> dict[FrameworkId, Framework]:
    """Return the frameworks the agent lists, those we did not know entered as recovered; not the removed ones."""
    found: dict[FrameworkId, Framework] = {}
    for info in report.frameworks:
        framework_id = info["id"]["value"]
        if framework_id not in state.completed:
            known = state.frameworks.get(framework_id)
            found[framework_id] = known if known is not None else recover_framework(state, info, now)
    return found


def _missing(state: MasterState, agent: Agent, report: Report) -> list[Document]:
    """Return, by framework, the tasks we know there and the agent does not: it answers for them itself."""
    listed = {(task["framework_id"]["value"], task["task_id"]["value"]) for task in report.tasks}
    missing: dict[FrameworkId, list[Document]] = {}
    for key, task in agent.tasks.items():
        task.unlisted = key not in listed
        if task.unlisted:
            status = {
                "task_id": {"value": task.id},
                "state": task.state,
                "agent_id": {"value": agent.id},
                "source": "SOURCE_MASTER",
                "reason": "REASON_RECONCILIATION",
            }
            missing.setdefault(task.framework_id, []).append(status)
    return [
        {"framework_id": {"value": fid}, "framework": state.frameworks[fid].info, "statuses": statuses}
        for fid, statuses in missing.items()
    ]


def _adopt_executors(
    state: MasterState, agent: Agent, frameworks: dict[FrameworkId, Framework], report: Report
) -> None:
    listed = {
        (info["framework_id"]["value"], info["executor_id"]["value"]): info
        for info in report.executors
        if info.get("framework_id", {}).get("value") in frameworks
    }
    for framework_id, executor_id in [key for key in agent.executors if key not in listed]:
        state.drop_executor(agent, framework_id, executor_id)
    for key, info in listed.items():
        if key not in agent.executors:
            resources = Resources.from_json(_allocated(info, frameworks[key[0]]))
            state.add_executor(key[0], agent, Executor(info, resources))


def _adopt_tasks(
    state: MasterState,
    agent: Agent,
    frameworks: dict[FrameworkId, Framework],
    report: Report,
    now: Moment,
    returned: bool,
    was_here: bool,
) -> list[Action]:
    """Enter the tasks of a report that we do not know.

    One that has ended there, of an agent that was here all the time (`was_here`), was forgotten as its end was
    acknowledged: the acknowledgement and the report have passed each other, and nobody would speak of it again. Mesos
    enters none of such an agent's: src/master/master.cpp, reconcileKnownSlave.
    """
    actions: list[Action] = []
    for document in report.tasks:
        framework = frameworks.get(document["framework_id"]["value"])
        if framework is None:
            continue
        known = agent.tasks.get((framework.id, document["task_id"]["value"]))
        if known is not None:
            _catch_up(state, known, document["state"])
            continue
        if was_here and is_terminal(document["state"]):
            continue
        lost = framework.unreachable.pop(document["task_id"]["value"], None)
        elsewhere = framework.tasks.get(document["task_id"]["value"])
        if elsewhere is not None:
            state.drop_task(framework, elsewhere, completed=False)  # the agent that runs it is right
        resources = _allocated(document, framework)
        document = {**document, "agent_id": {"value": agent.id}, "resources": resources}
        task = Task(document, Resources.from_json(resources))
        if lost is not None:
            task.told = lost.told
        state.add_task(framework, agent, task)
        if returned or lost is not None:
            reason, message = "REASON_AGENT_REREGISTERED", "Unreachable agent re-reregistered"
            # It takes no place in the history: there the agent's own words stay, which later answers repeat.
            status = about(framework, task, task.state, now, reason=reason, message=message, **repeated(task))
            actions += state.tell_status(framework, status)
    return actions


def _allocated(document: Mapping[str, Any], framework: Framework) -> list[ResourceDocument]:
    """Return the resources of a task or executor, allocated to a role: agents without MULTI_ROLE do not say to which.

    Such an agent is offered to frameworks of one role only; one that has several since has the first of them here.
    """
    role = {"role": framework.roles[0] if framework.roles else "*"}
    resources: list[ResourceDocument] = document.get("resources", [])
    return [one if "allocation_info" in one else {**one, "allocation_info": role} for one in resources]


def _forget_lost_tasks(state: MasterState, agent: Agent) -> None:
    """What this agent ran when it was lost and does not list is unreachable no longer: who asks hears that it is gone.

    The agent never heard of it, say: its link broke before the launch. As in Mesos, nothing is said unasked.
    """
    for framework in state.frameworks.values():
        for task in [task for task in framework.unreachable.values() if task.agent_id == agent.id]:
            del framework.unreachable[task.id]


def _catch_up(state: MasterState, task: Task, latest: str) -> None:
    """Take the agent's newer state; the update that says so comes by itself."""
    if not task.ended:
        task.document["state"] = latest
        if is_terminal(latest):
            state.release(task)
