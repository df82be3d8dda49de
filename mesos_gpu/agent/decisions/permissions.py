"""What a call to the agent needs permission for, and what of the agent somebody may see. Pure.

Source: Mesos src/slave/http.cpp, src/slave/slave.cpp (authorizeTask, authorizeSandboxAccess),
src/authorizer/local/authorizer.cpp (whose user counts for which action).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.agent.decisions.frameworks import Frameworks
from mesos_gpu.agent.launching.nested import container_name
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.container.spec.nesting import is_nested, top_level
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.security.authorization import Acls, Principal
from mesos_gpu.mesos.security.viewing import Viewer, user_of, user_of_task

_WITHOUT_OBJECT = {"SET_LOGGING_LEVEL": "set_log_level", "PRUNE_IMAGES": "prune_images", "GET_FLAGS": "view_flags"}
_LAUNCHES = {
    "LAUNCH_NESTED_CONTAINER": "launch_nested_containers",
    "LAUNCH_CONTAINER": "launch_nested_containers",
    "LAUNCH_NESTED_CONTAINER_SESSION": "launch_nested_container_sessions",
}
_CONTAINERS = {
    **{f"{verb}{nested}_CONTAINER": verb.lower() for verb in ("KILL", "WAIT", "REMOVE") for nested in ("", "_NESTED")},
    "ATTACH_CONTAINER_OUTPUT": "attach_containers_output",
    "ATTACH_CONTAINER_INPUT": "attach_containers_input",
}

ROOT = "root"
EXECUTOR_ENDPOINTS = frozenset({"api/v1/executor", "api/v1"})
"""The endpoints that executors can use; calls to /api/v1 are then authorized by `executor_may`."""


def may(viewer: Viewer, frameworks: Frameworks, kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether somebody may make a v1 call of this kind. What only shows things is filtered instead."""
    if viewer.principal is not None and viewer.principal.is_executor:
        return executor_may(viewer.acls, viewer.principal, frameworks, kind, body)
    if kind in _WITHOUT_OBJECT:
        return viewer.may(_WITHOUT_OBJECT[kind])
    if kind not in _LAUNCHES and kind not in _CONTAINERS:
        return True
    name = container_name(body["container_id"])
    root = top_level(name)
    user = owner_of(frameworks, root)
    approved, who = viewer.acls.approved, viewer.principal
    if kind in _LAUNCHES:
        if not is_nested(name):
            return viewer.may("launch_standalone_containers")
        if not approved(f"{_LAUNCHES[kind]}_under_parent_with_user", who, user, container=root):
            return False
        if "command" not in body:
            return True
        # Who names no user gets the parent's (launching/nested.py).
        return approved(f"{_LAUNCHES[kind]}_as_user", who, body["command"].get("user") or user, container=root)
    action = _CONTAINERS[kind]
    if not action.startswith("attach"):
        action += "_nested_containers" if is_nested(name) else "_standalone_containers"
    return approved(action, who, user, container=root)


def executor_may(acls: Acls, executor: Principal, frameworks: Frameworks, kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether an executor, known by its token, may make a v1 call: the only rule for executors.

    It can launch, wait for, kill, remove and enter containers below its own, and read the output of its own; every
    other call is refused, also without --acls. What it launches has no more privileges than its tasks.
    Source: Mesos src/authorizer/local/authorizer.cpp (LocalImplicitExecutorObjectApprover).
    """
    if kind not in _LAUNCHES and kind not in _CONTAINERS:
        return False
    name = container_name(body["container_id"])
    if kind in _LAUNCHES:
        action = f"{_LAUNCHES[kind]}_as_user"
    else:
        verb = _CONTAINERS[kind]
        action = verb if verb.startswith("attach") else f"{verb}_nested_containers"
    if not is_nested(name) and kind != "ATTACH_CONTAINER_OUTPUT":
        return False
    root = top_level(name)
    if not acls.approved(action, executor, container=root):
        return False
    return kind not in _LAUNCHES or _executor_may_launch(frameworks, root, body)


def _executor_may_launch(frameworks: Frameworks, container: ContainerId, call: Mapping[str, Any]) -> bool:
    """Return whether an executor may launch this in its container: as its user, with the privileges of its tasks.

    Mesos checks only that the container is the executor's, so a stolen token starts root there. Here the user is that
    of the executor, or one that a task of it names; `run_tasks` has authorized those. Capabilities and seccomp
    settings are those that the executor or a task of it asks for. An executor that runs as root has all users, and
    all capabilities that containers can have.
    """
    found = _find(frameworks, container)
    if found is None:
        return False
    framework, run = found
    own_user = user_of(command_of(run), framework.info)
    tasks = [task.info for task in framework.hosted_by(run)] if isinstance(run, Executor) else []
    users = {own_user, *filter(None, map(user_of_task, tasks))}
    user = (call.get("command") or {}).get("user", own_user)
    infos = [_linux_info(info) for info in (run.info, *tasks)]
    asked = _linux_info(call)
    if asked.get("seccomp") not in (None, *(info.get("seccomp") for info in infos)):
        return False
    allowed = {name for info in infos for name in _capabilities(info)}
    return own_user == ROOT or (user in users and allowed.issuperset(_capabilities(asked)))


def _linux_info(info: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (info.get("container") or {}).get("linux_info") or {}
    return found


def _capabilities(linux_info: Mapping[str, Any]) -> Sequence[str]:
    """Return the effective capabilities that a container asks for (launching/task_limits.py)."""
    asked = linux_info.get("effective_capabilities") or linux_info.get("capability_info") or {}
    return tuple(asked.get("capabilities", ()))


def owner_of(frameworks: Frameworks, container: ContainerId) -> str | None:
    """Return the user of the task or executor that a top level container is of; None for one of neither."""
    found = _find(frameworks, container)
    return None if found is None else user_of(command_of(found[1]), found[0].info)


def _find(frameworks: Frameworks, container: ContainerId) -> tuple[Framework, Task | Executor] | None:
    """Return what a top level container is of."""
    for framework in frameworks.active.values():
        runs: list[Task | Executor] = [task for task in framework.tasks.values() if not task.hosted]
        for run in (*runs, *framework.executors.values()):
            if run.container_id == container:
                return framework, run
    return None


def command_of(run: Task | Executor) -> Mapping[str, Any]:
    """Return what says whose an executor is: a framework's own, or the one that plays it for a task."""
    return run.info if isinstance(run, Executor) else {"command": run.info.get("command")}


def sees_run(viewer: Viewer, framework: Framework, run: Task | Executor) -> bool:
    """Return whether somebody may see an executor."""
    return viewer.executor(command_of(run), framework.info)


def sees_task(viewer: Viewer, framework: Framework, task: Task) -> bool:
    """Return whether somebody may see a task of a framework and an executor that he may see."""
    return viewer.task(user_of_task(task.info), framework.info)


def sees_container(viewer: Viewer, frameworks: Frameworks, container: ContainerId) -> bool:
    """Return whether somebody may see a container, by the task or executor that its top level one is of."""
    if viewer.sees_all:
        return True
    found = _find(frameworks, top_level(container))
    if found is None:
        return viewer.may("view_standalone_containers")
    framework, run = found
    return viewer.framework(framework.info) and viewer.container(command_of(run), framework.info)


def may_enter(viewer: Viewer, framework: Framework, run: Task | Executor) -> bool:
    """Return whether somebody may look into the sandbox of an executor."""
    return viewer.may("access_sandboxes", user_of(command_of(run), framework.info))


def run_refusal(acls: Acls, framework: Framework, info: TaskInfo) -> str | None:
    """Return why a framework may not run a task here, None when it may: asked again, though the master did already."""
    principal = Principal(framework.info["principal"]) if "principal" in framework.info else None
    if acls.approved("run_tasks", principal, user_of_task(info) or framework.info["user"]):
        return None
    return f"Framework {framework.id} is not authorized to launch task {info['task_id']['value']}"


def claims_problem(
    principal: Principal | None,
    framework: FrameworkId,
    executor: ExecutorId,
    container: ContainerId,
    *,
    needs_token: bool = False,
) -> str | None:
    """Return why a caller is not the executor that it speaks for, in Mesos' words; None if it is, or is not asked.

    `needs_token`: this executor always sends its token, so a caller without one is not that executor.
    """
    if principal is None:
        return "This executor must send the token that it was given" if needs_token else None
    said = f"Authenticated principal '{principal}' does not contain"
    if principal.claims.get("fid") != framework:
        return f"{said} an 'fid' claim with the framework ID {framework}, which is set in the call"
    if principal.claims.get("eid") != executor:
        return f"{said} an 'eid' claim with the executor ID {executor}, which is set in the call"
    if principal.claims.get("cid") != container:
        return f"{said} a 'cid' claim with the correct active ContainerID"
    return None
