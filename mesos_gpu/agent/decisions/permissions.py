"""What a call to the agent needs permission for, and what of the agent somebody may see. Pure.

Source: Mesos src/slave/http.cpp, src/slave/slave.cpp (authorizeTask, authorizeSandboxAccess),
src/authorizer/local/authorizer.cpp (whose user counts for which action).
"""

from __future__ import annotations

from collections.abc import Mapping
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


def may(viewer: Viewer, frameworks: Frameworks, kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether somebody may make a v1 call of this kind. What only shows things is filtered instead."""
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
        asked = body["command"].get("user")
        if who is not None and who.claims and not _executor_may_be(frameworks, root, asked):
            return False
        # Who names no user gets the parent's (launching/nested.py).
        return approved(f"{_LAUNCHES[kind]}_as_user", who, asked or user, container=root)
    action = _CONTAINERS[kind]
    if not action.startswith("attach"):
        action += "_nested_containers" if is_nested(name) else "_standalone_containers"
    return approved(action, who, user, container=root)


def _executor_may_be(frameworks: Frameworks, container: ContainerId, user: str | None) -> bool:
    """Return whether an executor, known by its token, may launch as this user in its container.

    Mesos asks only whose container it is, so a token that was stolen starts root. Here an executor has the rights of
    its framework's user, of its own, and of those that its tasks name, which `run_tasks` was asked about; root has all.
    """
    found = _find(frameworks, container)
    if user is None or found is None:
        return True
    framework, run = found
    users = {framework.info["user"], user_of(command_of(run), framework.info)}
    if isinstance(run, Executor):
        users.update(filter(None, (user_of_task(task.info) for task in framework.hosted_by(run))))
    return user in users or user_of(command_of(run), framework.info) == ROOT


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
    principal: Principal | None, framework: FrameworkId, executor: ExecutorId, container: ContainerId
) -> str | None:
    """Return why somebody is not the executor that he speaks for, in Mesos' words; None when he is, or nobody asks."""
    if principal is None:
        return None
    said = f"Authenticated principal '{principal}' does not contain"
    if principal.claims.get("fid") != framework:
        return f"{said} an 'fid' claim with the framework ID {framework}, which is set in the call"
    if principal.claims.get("eid") != executor:
        return f"{said} an 'eid' claim with the executor ID {executor}, which is set in the call"
    if principal.claims.get("cid") != container:
        return f"{said} a 'cid' claim with the correct active ContainerID"
    return None
