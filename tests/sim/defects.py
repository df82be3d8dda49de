"""Planted defects: real or plausible bugs, each a change of the code that tests must notice.

A change names a function and the source text of one expression or statement in it. The module is found by searching,
so that moving a function to another module needs no change here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGES = ("mesos_gpu", "marathon_cli")


@dataclass(frozen=True)
class Change:
    """One replacement: in `function` (its qualified name), `was` becomes `becomes`; layout does not matter.

    Both are expressions, or `was` is one statement and `becomes` is one or several.
    """

    function: str
    was: str
    becomes: str


@dataclass(frozen=True)
class Defect:
    """A bug to plant. `finding`: text that a finding of the simulator must contain, where others would mask it."""

    name: str
    about: str
    changes: tuple[Change, ...]
    finding: str = ""


@dataclass(frozen=True)
class Place:
    """Where a change applies: a file and the node to replace."""

    file: Path
    node: ast.expr | ast.stmt


class NotPlantable(Exception):
    """A change does not fit the code: nothing matches it, or several places do."""


def plant(defect: Defect, tree: Path) -> dict[Path, str]:
    """Return the files of a source tree with this defect: their new text by path. Raises NotPlantable."""
    changed: dict[Path, list[tuple[Place, Change]]] = {}
    for change in defect.changes:
        place = find(change, tree)
        changed.setdefault(place.file, []).append((place, change))
    return {file: _replaced(file.read_bytes(), places) for file, places in changed.items()}


def find(change: Change, tree: Path) -> Place:
    """Return the only place in a source tree that a change fits. Raises NotPlantable."""
    node_wanted = _parsed(change)[0]
    wanted = ast.dump(node_wanted)
    named, matching = [], []
    for file, text in _sources(tree).items():
        if f"def {change.function.rpartition('.')[2]}(" not in text:
            continue
        for name, function in _functions(_tree(text)):
            if name == change.function:
                named.append(file)
                nodes = (node for node in ast.walk(function) if type(node) is type(node_wanted))
                matching += [Place(file, node) for node in nodes if ast.dump(node) == wanted]
    if len(matching) == 1:
        return matching[0]
    if not named:
        raise NotPlantable(f"there is no function {change.function}: was it renamed? Change its name in {__file__}")
    where = ", ".join(f"{place.file.relative_to(tree)}:{place.node.lineno}" for place in matching)
    files = ", ".join(str(file.relative_to(tree)) for file in named)
    found = f"{len(matching)} times ({where})" if matching else f"not at all ({files})"
    raise NotPlantable(f"{change.function} must contain this once, and does {found}; edit {__file__}:\n{change.was}")


def _parsed(change: Change) -> tuple[ast.expr | ast.stmt, bool]:
    """Return the node to look for, and whether it is replaced as an expression."""
    try:
        ast.parse(change.becomes, mode="eval")
        return ast.parse(change.was, mode="eval").body, True
    except SyntaxError:
        (statement,) = ast.parse(change.was).body
        return statement, False


@cache
def _sources(tree: Path) -> Mapping[Path, str]:
    return {file: file.read_text() for package in PACKAGES for file in sorted((tree / package).rglob("*.py"))}


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield each function with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{within}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, within)


def _replaced(source: bytes, places: list[tuple[Place, Change]]) -> str:
    """Return the source with each node replaced, the last one first; all other text keeps its place."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for place, change in sorted(places, key=lambda one: (one[0].node.lineno, one[0].node.col_offset), reverse=True):
        node = place.node
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        if _parsed(change)[1]:
            text = f"({change.becomes})"
        else:
            text = change.becomes.replace("\n", "\n" + " " * node.col_offset)
        source = source[:begin] + text.encode() + source[end:]
    return source.decode()


def _defect(name: str, about: str, *changes: tuple[str, str, str], finding: str = "") -> Defect:
    return Defect(name, about, tuple(Change(*change) for change in changes), finding)


_ALL = (
    _defect(
        "absent-said-once",
        "An agent reports only once that it does not have a task. A master whose framework was disconnected at that "
        "time keeps the task forever.",
        (
            "report_absent",
            "if key in state.streams:\n    return []",
            'return [Forward(key, status := _status(state, key, verdict, at), status["state"])]',
        ),
    ),
    _defect(
        "acts-before-saving",
        "Marathon acts on a decision before it has stored it. After a kill it does not know what it has started.",
        (
            "Scheduler._decided",
            "saves = [action for action in turn.actions if isinstance(action, Save)]",
            "saves = [action for action in turn.actions if isinstance(action, Save)]\n"
            "for action in turn.actions:\n"
            "    self._perform(action)",
        ),
    ),
    _defect(
        "answers-put-off-delays",
        "Each answer to a reconciliation restarts the launch delay of an app, so failed instances are never restarted "
        "while others run.",
        (
            "_move",
            "known is not None and instance.phase is not Phase.KILLING and instance.condition != before.condition",
            "known is not None and instance.phase is not Phase.KILLING",
        ),
    ),
    _defect(
        "any-acknowledgement",
        "Any acknowledgement completes the pending update of a task, including one for an earlier update.",
        (
            "UpdateStreams.expects",
            'stream and stream.pending and stream.pending[0].get("uuid") == uuid',
            "stream and stream.pending",
        ),
    ),
    _defect(
        "any-answer-is-well",
        "An agent treats every response to an HTTP check as success.",
        ("_problem", 'None if well else f"Unexpected HTTP response code: {code}"', "None"),
    ),
    _defect(
        "anybody-is-suspended",
        "Tasks are suspended for others even if their app is not preemptible.",
        (
            "gives_part",
            'share is not None and not share.high_priority and bool(spec.document.get("preemptible"))',
            "share is not None and not share.high_priority",
        ),
    ),
    _defect(
        "broken-link-unnoticed",
        "An agent does not register again after its connection to the master has broken.",
        ("MasterLink._on_exited", "self._deliver(LinkBroke())", "return"),
    ),
    _defect(
        "clock-gone-back",
        "Times stored while a clock was ahead stay valid after the clock was corrected. Kills are not repeated for "
        "days.",
        ("handle", "heed_the_clock(draft)", "pass"),
    ),
    _defect(
        "displaced-parts-stay",
        "A GPU share that is offered in place of a suspended task's share is still offered after that task has ended.",
        ("Offering._with_displaced", "kept", "kept + had_by(over)"),
    ),
    _defect(
        "ended-tasks-dropped",
        "An agent reports TASK_DROPPED for a task whose terminal update was acknowledged. Masters ask about such tasks "
        "after a list that arrived late.",
        ("not_here", "is_terminal(past.state)", "not is_terminal(past.state)"),
        ("_adopt_tasks", 'if was_here and is_terminal(document["state"]):\n    continue', "pass"),
        finding="is said to have never been launched",
    ),
    _defect(
        "ends-seen-late",
        "A restarted agent starts to watch its running containers only after ten minutes. Containers that end before "
        "then appear to run.",
        (
            "Runner._watch",
            "await self._wait(action.key, action.container_id)",
            "if not action.launching:\n    await asyncio.sleep(600)\nawait self._wait(action.key, action.container_id)",
        ),
    ),
    _defect(
        "equals-give-way",
        "Tasks of equal priority are preempted too.",
        ("_gives_way", "task.priority < ask.priority", "task.priority <= ask.priority"),
    ),
    _defect(
        "executor-without-tasks-stays",
        "An executor that never received its tasks because its agent was killed keeps running and keeps their GPUs.",
        ("_subscribed", "executor.ever_sent = False", "pass"),
    ),
    _defect(
        "given-back-and-kept",
        "An agent keeps a reservation that it was told to remove, and reports that it removed it.",
        ("_apply", "whole is None", 'whole is None or event.info["type"] == "UNRESERVE"'),
    ),
    _defect(
        "given-up-links-deliver",
        "Messages sent over an abandoned connection arrive when the network recovers, including launches that the "
        "master has written off.",
        ("_Link.abort", "if silent:\n    self._waiting.clear()", "pass"),
        ("_Link.abort", "self._transport.abort()", "self._transport.close()"),
    ),
    _defect(
        "gone-agents-waited-for",
        "An app with a volume waits forever for an agent that was marked as gone while none of its tasks ran there.",
        ("reconcile", "known |= residency.places(draft.instances.values())", "pass"),
    ),
    _defect(
        "gpus-not-freed",
        "The GPUs of a container are not released when it ends.",
        ("NvidiaGpuIsolator.cleanup", "self._release(name, Release(container(name)))", "pass"),
    ),
    _defect(
        "gpus-not-recorded",
        "The GPUs of a container are not written to disk, so a restarted agent allocates them again.",
        (
            "Checkpoints.save",
            "self._records.save(_Document(name, held))",
            "pass",
        ),
    ),
    _defect(
        "grace-forgotten",
        "After an agent restart, a task that is being killed has 3 s left, whatever its grace period was.",
        ("replay", "_grace_ends_s(run.records, at)", "None"),
    ),
    _defect(
        "half-a-reservation",
        "A partial reservation counts as complete. An app waits forever for a volume that its agent did not create.",
        ("sift", "not known.confirmed and shown", "not known.confirmed"),
    ),
    _defect(
        "invariants-of-withheld",
        "--check_invariants reports withheld resources as a violation.",
        (
            "_links",
            "not state.allocation_due and agent.id not in state.withheld and known.free(agent.id) != agent.free",
            "not state.allocation_due and known.free(agent.id) != agent.free",
        ),
    ),
    _defect(
        "killed-agents-resources-believed",
        "A master takes the resources reported by a killed agent for those of its successor. Every launch there fails.",
        ("updated", "agent.is_past(resource_version_uuid)", "False"),
        ("AgentLink._is_late", "self._introductions.is_late(message)", "False"),
    ),
    _defect(
        "kills-forgotten",
        "A kill for a disconnected agent is not sent when the agent reconnects.",
        ("kill", "agent.killed[task.key] = policy", "pass"),
    ),
    _defect(
        "kills-of-launching-forgotten",
        "A task that is killed while its container is being launched keeps running.",
        (
            "end_task",
            "task.phase = next_phase(was, Cause.END_ASKED)",
            "if was is Phase.LAUNCHING:\n    return []\ntask.phase = next_phase(was, Cause.END_ASKED)",
        ),
    ),
    _defect(
        "late-acknowledgements-taken",
        "An agent accepts an acknowledgement from a previous master after it has reported the update as pending to the "
        "next one.",
        ("Membership.takes", "not self.estranged", "not isinstance(told, ev.RunTask) or not self.estranged"),
    ),
    _defect(
        "late-launches-taken",
        "An agent accepts messages of a killed master that arrive after its successor has answered.",
        (
            "MasterLink._on_message",
            "message.sender == self.master and self._overtaking.is_late(message)",
            "False",
        ),
    ),
    _defect(
        "late-lists-bring-back",
        "A master restores a task whose terminal update was acknowledged, from an agent's list that was sent earlier "
        "and arrived later.",
        ("_adopt_tasks", 'if was_here and is_terminal(document["state"]):\n    continue', "pass"),
    ),
    _defect(
        "late-reports-believed",
        "A master accepts a killed agent's list that arrives after the reports of its successor.",
        ("AgentLink._on_message", "self._is_late(name, message)", "False"),
        ("Agent.is_past", "version is not None and version in self.past_versions", "False"),
    ),
    _defect(
        "late-updates-believed",
        "A master accepts an outdated status update from a connection that was presumed dead.",
        (
            "_is_late",
            'task is not None and status["uuid"] in task.told and status["uuid"] != task.told[-1]',
            "False",
        ),
    ),
    _defect(
        "launches-not-synced",
        "A task is started before its checkpoint is synced to disk. After a power failure a job runs twice.",
        (
            "Performer._run",
            "self.runner.launch(action, self.checkpoints.syncing.synced())",
            "self.runner.launch(action)",
        ),
    ),
    _defect(
        "launches-watched-without-pause",
        "The default executor polls without pause for a killed task that its agent has not launched yet.",
        (
            "ExecutorState.next_due_s",
            "if container.launched:\n    times.append(container.kill_at_s)",
            "times.append(container.kill_at_s)",
        ),
    ),
    _defect(
        "launches-while-away",
        "An agent accepts delayed launches after it has sent the list of its tasks.",
        ("Membership.takes", "not self.estranged", "isinstance(told, ev.RunTask) or not self.estranged"),
    ),
    _defect(
        "lost-replaced-at-once",
        "An instance on a lost agent is replaced before inactiveAfterSeconds has passed.",
        ("_replaceable", 'since_s is not None and now_s >= since_s + float(strategy["inactiveAfterSeconds"])', "True"),
    ),
    _defect(
        "marathon-leads-on",
        "A Marathon whose ZooKeeper session has expired, or that has a successor, continues to lead and overwrites its "
        "successor's data.",
        ("Election.heard", "self.elected.done()", "self.elected.done() and not self.leading"),
        ("Candidacy._lost", "self._election.elected.done()", "False"),
        (
            "ZkTree._commit",
            "transaction.set_data(self._owner, mark, version=self._version)",
            "transaction.set_data(self._owner, mark)",
        ),
    ),
    _defect(
        "master-leads-on",
        "A master whose ZooKeeper session has expired, or that has a successor, continues to lead.",
        ("RunningMaster._heard", "was_elected and not ours", "False"),
        ("RunningMaster._session_lost", "self.leadership.elected", "False"),
    ),
    _defect(
        "names-not-synced",
        "An agent's id is lost in a power failure because the enclosing directories were not synced.",
        ("AgentCheckpoints.save_agent", "sync_folder(folder.parent)", "pass"),
        ("AgentCheckpoints.save_agent", "sync_folder(self.meta)", "pass"),
    ),
    _defect(
        "never-given-back-again",
        "The GPU shares of a container stay allocated if a disk error occurred when it ended.",
        ("SharingIsolator.prepare", "self._clean_up_again()", "pass"),
    ),
    _defect(
        "never-reconciles",
        "Marathon does not reconcile its tasks.",
        ("reconcile", "if known:\n    draft.actions.append(Reconcile(known))", "pass"),
        ("reconcile", "draft.actions.append(Reconcile({}))", "pass"),
    ),
    _defect(
        "newcomers-sent-away",
        "An agent with a new disk and thus a new id is shut down when its previous id is marked as gone.",
        (
            "marked_gone",
            "state.recovered.pop(agent_id, None)",
            "known = state.recovered.pop(agent_id, None) or state.unreachable.pop(agent_id, None)",
        ),
        ("marked_gone", "state.unreachable.pop(agent_id, None)", "None"),
        (
            "marked_gone",
            "[ForgetAgent(agent_id), *_end_unreachable(state, agent_id, now)]",
            "[ForgetAgent(agent_id), *([] if known is None else [ShutdownAgent(known.pid, GONE)]), "
            "*_end_unreachable(state, agent_id, now)]",
        ),
    ),
    _defect(
        "old-versions-named",
        "A master sends the resource version that an agent had before its restart. Every launch there is refused.",
        (
            "updated",
            "if resource_version_uuid is not None:\n    agent.take_version(resource_version_uuid)",
            "pass",
        ),
        ("_refresh", "agent.take_version(report.resource_version_uuid)", "pass"),
    ),
    _defect(
        "operations-by-old-versions",
        "A master sends operations with the resource version that an agent had at its first operation.",
        (
            "message_of",
            'agent.resource_version_uuid or ""',
            'vars(message_of).setdefault(agent.id, agent.resource_version_uuid or "")',
        ),
    ),
    _defect(
        "parts-back-before-written",
        "A resumed task can open its GPU before the allocation is on disk. After a kill, the next agent allocates the "
        "GPU to another task.",
        (
            "SharingIsolator.reshare",
            "if new.parts:\n    self._check_room(name, new)\n    self._replace_record(name, share, new)",
            "if new.parts:\n    self._check_room(name, new)",
        ),
    ),
    _defect(
        "parts-not-freed",
        "The record of a GPU share remains after its container has ended. The next agent cannot allocate the share.",
        ("SharingIsolator._forget", "self._records.remove(container_id)", "pass"),
    ),
    _defect(
        "parts-not-recorded",
        "The GPU share of a container is not written to disk, so a restarted agent allocates it again.",
        ("SharingIsolator.prepare", "self._record(name, share)", "pass"),
    ),
    _defect(
        "parts-of-ill-cards-given",
        "Shares of an unhealthy GPU are offered and allocated.",
        (
            "AgentGpus.closed_cards",
            "frozenset(gpu.index for uuid, gpu in self._shared.items() if uuid in self._health.withdrawn)",
            "frozenset()",
        ),
    ),
    _defect(
        "pending-updates-lost",
        "A restarted agent forgets the updates that were not acknowledged.",
        (
            "adopt_task",
            "state.streams.restore(task.key, pending, task.state)",
            "state.streams.restore(task.key, (), task.state)",
        ),
        (
            "adopt_executor",
            "state.streams.restore(task.key, pending, task.state)",
            "state.streams.restore(task.key, (), task.state)",
        ),
    ),
    _defect(
        "ran-before-the-restart",
        "A task that ran until its machine was restarted is reported as never launched, so a job runs again.",
        ("not_here", '"TASK_GONE" if rebooted else "TASK_DROPPED"', '"TASK_DROPPED"'),
    ),
    _defect(
        "readiness-not-waited-for",
        "A deployment counts a task that is not ready yet.",
        ("ready", "found is not None and found.ready", "True"),
    ),
    _defect(
        "reconcile-without-agents",
        "Marathon reconciles tasks without naming their agents, so a task on a disconnected agent counts as ended.",
        ("Driver.reconcile", "_task_at(task_id, agent_id)", "_task_at(task_id, None)"),
    ),
    _defect(
        "removed-frameworks-stay-silenced",
        "A restarted agent treats a framework as removed that was removed once and has returned since. It receives "
        "nothing from that agent.",
        (
            "replayed",
            "silenced.get(name, False)",
            "any(task.fate is Fate.SILENCED for task, _ in tasks if task.key.framework == name)",
        ),
    ),
    _defect(
        "reservation-never-doubted",
        "An app with a volume waits forever for a reservation that did not reach the agent.",
        ("_move", "instance = residency.in_doubt(instance, draft.now_s)", "pass"),
    ),
    _defect(
        "reservations-forgotten",
        "A restarted agent forgets its reservations and gives their volumes away.",
        ("Agent._recover", "found.resources", "()"),
    ),
    _defect(
        "runs-replaced",
        "A job runs again although only its agent is unreachable.",
        (
            "_replaceable",
            'if instance.phase is not Phase.UNREACHABLE or strategy == "disabled" or instance.task is None:\n'
            "    return False",
            "if instance.phase is not Phase.UNREACHABLE or instance.task is None:\n"
            "    return False\n"
            'if strategy == "disabled":\n'
            "    return True",
        ),
    ),
    _defect(
        "runtime-folder-removed",
        "A starting agent removes its predecessor's records of which containers hold which GPUs, as `up` once did when "
        "it failed to start.",
        (
            "run",
            "configuration = read_configuration(flags)",
            "configuration = read_configuration(flags)\n"
            '__import__("shutil").rmtree(configuration.runtime_dir, ignore_errors=True)',
        ),
    ),
    _defect(
        "suspended-ends-seen-late",
        "A restarted agent starts to watch suspended containers only after ten minutes. Those that end before then "
        "stay suspended.",
        (
            "Suspender.recover",
            "self._watch(container)",
            "asyncio.get_running_loop().call_later(600, self._watch, container)",
        ),
        finding="suspended still",
    ),
    _defect(
        "suspended-ends-unnoticed",
        "A restarted agent does not notice that a suspended task has ended meanwhile, and keeps its record.",
        ("Suspender.recover", "self._step(container, Step.ENDED)", "pass"),
        (
            "Suspender.recover",
            "self._watch(container)",
            "if container in self._holdings.held:\n    self._watch(container)",
        ),
    ),
    _defect(
        "unknown-health-is-well",
        "A deployment counts a task as healthy before its first health check.",
        (
            "healthy",
            "verdict(draft.health.get(instance.task.id)) is True",
            "verdict(draft.health.get(instance.task.id)) is not False",
        ),
    ),
    _defect(
        "unwritten-acted-upon",
        "An agent that cannot write a decision to disk acts on it anyway.",
        ("Agent.post", "self._unwritten(error)", 'log.warning("cannot write a checkpoint: %s", error)'),
    ),
    _defect(
        "updates-gone-with-the-link",
        "An agent that loses its connection to the master forgets its pending updates.",
        (
            "handle",
            "state.streams.pause()",
            "state.streams.pause()\n"
            "for framework_id in state.frameworks.active:\n"
            "    state.streams.forget_framework(framework_id)",
        ),
    ),
    _defect(
        "updates-sent-once",
        "An agent sends a status update only once, so one that is lost in transit never arrives.",
        ("UpdateStreams.retry", "again.append(Forward(key, stream.pending[0], stream.latest_state))", "pass"),
    ),
    _defect(
        "volumes-not-synced",
        "Synced data in a persistent volume is lost in a power failure because the enclosing directories were not "
        "synced.",
        ("Volumes.make", "sync_folder(folder)", "continue"),
    ),
    _defect(
        "withheld-for-ever",
        "The resources of a task whose terminal update arrived late are never offered again.",
        ("tick", "state.let_go_old()", "pass"),
    ),
)
DEFECTS: Mapping[str, Defect] = {defect.name: defect for defect in _ALL}
"""All of them, by name."""
